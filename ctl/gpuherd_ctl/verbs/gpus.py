"""``agentctl gpus``: a line a GPU, of the whole fleet or of some nodes."""

import argparse

from gpuherd.names import expand_nodes
from gpuherd.rest import Gpu, Gpus
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb

HEADS = ("NODE", "GPU", "UUID", "MODEL", "BUS", "HEALTH", "ACTION", "REASON")


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "nodes", nargs="*", metavar="NODE", help="name or range such as gpu-[01-08]; none = all"
    )
    parser.add_argument("--sick", action="store_true", help="only GPUs that are lost or kept from work")


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    names = expand_nodes(given.nodes)
    if names:
        told = [gpu for name in names for gpu in session.scaler.get(f"/nodes/{name}/gpus", Gpus).gpus]
    else:
        told = list(session.scaler.get("/gpus", Gpus).gpus)
    shown = tuple(gpu for gpu in told if not (given.sick and gpu.healthy))
    session.paper.json(Gpus(gpus=shown))
    session.paper.table(HEADS, [row(gpu) for gpu in shown])
    return ExitCode.DONE


def row(gpu: Gpu) -> tuple[str, ...]:
    """Return the cells of one GPU under HEADS."""
    return (
        gpu.node,
        "-" if gpu.index is None else str(gpu.index),
        gpu.uuid,
        gpu.model or "-",
        gpu.pci_bus_id or "-",
        gpu.severity.value if gpu.present else "LOST",
        gpu.action.value,
        gpu.reason,
    )


VERB = Verb(name="gpus", summary="List GPUs with their health.", declare=_declare, run=_run)
