"""``gpuherd-autoscaler``: arguments, settings, logs, run. Exit 78 = the settings must be mended."""

import argparse
import sys
from pathlib import Path

from gpuherd.shell.lean_imports import refuse_rich

refuse_rich()

from gpuherd import __version__  # noqa: E402  after refuse_rich
from gpuherd.errors import ConfigInvalid  # noqa: E402
from gpuherd.shell import logs  # noqa: E402
from gpuherd.shell.config_file import load  # noqa: E402
from gpuherd_autoscaler.settings import ScalerSettings  # noqa: E402

EX_CONFIG = 78


def main() -> None:
    """Run the autoscaler until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(
        prog="gpuherd-autoscaler", description="Adds and drains GPU nodes for Ray by its queue."
    )
    parser.add_argument("--config", type=Path, default=Path("/etc/gpuherd/autoscaler.toml"), metavar="FILE")
    parser.add_argument("--check", action="store_true", help="judge the settings, start nothing")
    parser.add_argument("--version", action="version", version=f"gpuherd-autoscaler {__version__}")
    wanted = parser.parse_args()
    try:
        settings = load(ScalerSettings, wanted.config)
        if wanted.check:
            _check(settings)
            print(f"{wanted.config}: ok")
            return
        logs.configure(level=settings.log_level)
        sys.exit(_run(settings))
    except ConfigInvalid as error:
        for key, why in sorted(error.problems.items()):
            print(f"gpuherd-autoscaler: {key}: {why}", file=sys.stderr)
        sys.exit(EX_CONFIG)


def _check(settings: ScalerSettings) -> None:
    """Judge what only the installed entry points know, and print the next openings of each window."""
    from gpuherd.shell.clock import SystemClock  # noqa: PLC0415
    from gpuherd_autoscaler.triggers.kinds import make  # noqa: PLC0415
    from gpuherd_autoscaler.windows import openings  # noqa: PLC0415

    for i, trigger in enumerate(settings.trigger):
        make(trigger.kind, f"trigger[{i}].kind")
    for window in settings.window:
        print(f"window {window.name}, {window.zone}:")
        for opening in openings(window, SystemClock().wall()):
            print(f"  {opening.start:%a %Y-%m-%d %H:%M %Z}  to  {opening.end:%a %Y-%m-%d %H:%M %Z}")


def _run(settings: ScalerSettings) -> int:
    """Import what a check does not need, then run."""
    from gpuherd_autoscaler.service import run  # noqa: PLC0415

    return run(settings)


if __name__ == "__main__":
    main()
