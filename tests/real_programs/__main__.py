"""Run programs of other projects under Treadle: `python -m tests.real_programs [--only NAME ...]`.

Each part starts a mini cluster in mode `enforce` and prints one line on stdout: its name, the containers placed by
Treadle and by the CapacityScheduler, its verdict, the events after which the books added up. Progress is on stderr.
The exit code is 1 if a part failed.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.real_programs import packages
from tests.real_programs.account import Account

from treadle_lab.cli._experiments import isolate_if_possible


@dataclass(frozen=True)
class Part:
    """A part of the run.

    Attributes:
        function: MODULE:FUNCTION in this package.
        jars: the file of poms/ that lists jars it needs.
        python: the file of requirements/ that lists Python packages it needs.
    """

    function: str
    jars: str = ""
    python: str = ""

    def fetch(self, say: Callable[[str], None]) -> None:
        """Fetch what it needs unless that is here already."""
        if self.jars:
            packages.jars(self.jars, say)
        if self.python:
            packages.python(self.python, say)

    def run(self, account: Account) -> None:
        """Run it."""
        module, _, function = self.function.partition(":")
        getattr(importlib.import_module(f"tests.real_programs.{module}"), function)(account)


PARTS = {
    "flink-ha": Part("flink:run", jars="flink", python="flink"),
    "skein": Part("skein:run", python="skein"),
    "services": Part("services:constraints", jars="services"),
    "hive-tez": Part("hive:run", jars="hive"),
    "spark-3.5": Part("spark:run_3_5", python="spark-3.5"),
    "spark-4": Part("spark:run_4"),
    "kept-containers": Part("services:kept", jars="services"),
    "moved": Part("services:moved", jars="services"),
    "drained": Part("services:drained", jars="services"),
    "queues": Part("services:queues", jars="services"),
    "failover": Part("services:failover", jars="services"),
}
"""All parts, in the order in which they run."""


def arguments(texts: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.real_programs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="+", choices=tuple(PARTS), metavar="NAME", default=list(PARTS), help=f"of {', '.join(PARTS)}"
    )
    return parser.parse_args(texts)


def main(texts: Sequence[str] | None = None) -> int:
    """Run the parts one after another; returns 1 if one failed, else 0."""
    chosen = arguments(texts).only
    for name in chosen:
        try:
            PARTS[name].fetch(Account(name).say)
        except Exception as error:
            # the part tries again, and its line has the reason
            Account(name).say(str(error))
    isolate_if_possible()
    reasons = [_run(name) for name in chosen]
    return 1 if any(reasons) else 0


def _run(name: str) -> str:
    """Run a part and print its line; returns why it failed, or nothing."""
    account = Account(name)
    reason = ""
    try:
        PARTS[name].run(account)
    except Exception as error:
        traceback.print_exc()
        reason = str(error) or type(error).__name__
    print(account.line(reason), flush=True)
    return reason


if __name__ == "__main__":
    sys.exit(main())
