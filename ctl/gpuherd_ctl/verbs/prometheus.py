"""``agentctl prometheus``: print what Prometheus needs to scrape the herd."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from gpuherd.rest_prometheus import Scraping
from gpuherd_ctl.client import Trouble
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb

_RAY_SD: Final = "/tmp/ray/prom_metrics_service_discovery.json"  # noqa: S108  where Ray's head writes it
_AGENTS_SD: Final = "/etc/prometheus/gpuherd-agents.json"


def _declare(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    config = actions.add_parser("config", help="print a configuration of Prometheus 2.42 or later")
    config.add_argument(
        "--rules", metavar="DIR", default="/etc/prometheus/gpuherd", help="where alerts/ lies"
    )
    config.add_argument(
        "--ray", metavar="FILE", default=_RAY_SD, help="the target list that Ray's head writes"
    )
    config.add_argument(
        "--file-sd",
        metavar="FILE",
        default="",
        help="read the agents from this file (see file-sd), not from the autoscaler",
    )
    file_sd = actions.add_parser("file-sd", help="print the agents as a list for file_sd_configs")
    file_sd.add_argument("--out", metavar="FILE", type=Path, help="write it there, whole or not at all")


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    scraping = session.scaler.get("/prometheus", Scraping)
    if given.action == "config":
        for line in config_lines(scraping, rules=given.rules, ray=given.ray, file_sd=given.file_sd):
            print(line, file=session.paper.out)
        return ExitCode.DONE
    text = msgspec.json.format(msgspec.json.encode(scraping.agents), indent=2).decode() + "\n"
    if given.out is None:
        print(text, end="", file=session.paper.out)
        return ExitCode.DONE
    _replace(given.out, text)
    session.paper.remark(f"wrote {len(scraping.agents)} agents to {given.out}")
    return ExitCode.DONE


def config_lines(scraping: Scraping, *, rules: str, ray: str, file_sd: str) -> Iterator[str]:
    """Yield the configuration. JSON strings are YAML strings, so names are quoted as such."""
    yield f"# Prometheus 2.42 or later, for {scraping.cluster}. Keep the job names: alerts go by them."
    yield "global: {scrape_interval: 15s, evaluation_interval: 15s}"
    yield f"rule_files: [{_quoted(f'{rules}/gpuherd-*.yml')}]"
    yield "scrape_configs:"
    yield "  - job_name: gpuherd-agent"
    if file_sd or not scraping.scaler:
        if not file_sd:
            yield "    # The autoscaler has no page over TCP ([metrics] port = 0), so renew this list:"
            yield f"    # agentctl prometheus file-sd --out {_AGENTS_SD}"
        yield f"    file_sd_configs: [{{files: [{_quoted(file_sd or _AGENTS_SD)}]}}]"
    else:
        yield "    http_sd_configs:  # every expected node, also one that never spoke"
        yield f"      - url: {_quoted(f'http://{scraping.scaler}/api/v1/prometheus/targets')}"
        yield "        refresh_interval: 1m"
    if scraping.scaler:
        yield "  - job_name: gpuherd-autoscaler"
        labels = f"{{cluster: {_quoted(scraping.cluster)}}}"
        yield f"    static_configs: [{{targets: [{_quoted(scraping.scaler)}], labels: {labels}}}]"
    yield "  - job_name: ray  # tasks and services: Ray's own metrics"
    yield f"    file_sd_configs: [{{files: [{_quoted(ray)}]}}]"


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _replace(path: Path, text: str) -> None:
    """Write the file so that a reader sees the old list or the new one, never half of it."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise Trouble(ExitCode.FAILED, f"{path}: {error.strerror}") from error


VERB = Verb(
    name="prometheus",
    summary="Print a scrape configuration, or the list of agents to scrape.",
    declare=_declare,
    run=_run,
)
