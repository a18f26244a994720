"""Run programs of other projects under Treadle: `python -m tests.real_programs [--only NAME ...]`.

Each part starts a mini cluster in mode `enforce` and prints one line on stdout: its name, the containers placed by
Treadle and natively, its verdict, the events after which the books added up. Progress is on stderr. The exit code is 1
if a part failed.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import traceback
from collections.abc import Callable, Sequence

from tests.real_programs.account import Account

PARTS = {
    "flink-ha": "flink:run",
    "skein": "skein:run",
    "services": "services:run",
    "hive-tez": "hive:run",
    "spark-3.5": "spark:run_3_5",
    "spark-4": "spark:run_4",
    "kept-containers": "kept:run",
    "moved": "moved:run",
    "drained": "drained:run",
    "queues": "queues:run",
    "failover": "failover:run",
}
"""Each part, its module and function, in the order in which they run."""


def arguments(texts: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.real_programs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="+", choices=tuple(PARTS), metavar="NAME", default=list(PARTS), help=f"of {', '.join(PARTS)}"
    )
    return parser.parse_args(texts)


def function_of(place: str) -> Callable[[Account], None]:
    """Return the function of a part, given as MODULE:FUNCTION."""
    module, _, function = place.partition(":")
    found: Callable[[Account], None] = getattr(importlib.import_module(f"tests.real_programs.{module}"), function)
    return found


def main(texts: Sequence[str] | None = None) -> int:
    """Run the parts one after another; returns 1 if one failed, else 0."""
    failed = False
    for name in arguments(texts).only:
        account = Account(name)
        reason = ""
        try:
            function_of(PARTS[name])(account)
        except Exception as error:
            traceback.print_exc()
            reason = str(error) or type(error).__name__
        print(account.line(reason), flush=True)
        failed = failed or bool(reason)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
