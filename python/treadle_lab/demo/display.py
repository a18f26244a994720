"""Live progress: a table that changes in place at a terminal, a line for each change elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.box import SIMPLE
from rich.console import Console
from rich.live import Live
from rich.table import Table

from treadle_lab.demo.run import RunningJob


class Display:
    """Shows what goes on, from the start of the cluster to its end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        self._step = ""
        self._shown: dict[str, str] = {}

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """Say what happens now."""
        if text != self._step:
            self._console.print(text, highlight=False, soft_wrap=True)
        self._step = text

    def show(self, jobs: list[RunningJob]) -> None:
        """Show how far each job is."""
        if self._live is not None:
            self._live.update(_table(jobs), refresh=True)
            return
        for running in jobs:
            if self._shown.get(running.job.name) != running.state:
                self._shown[running.job.name] = running.state
                self._console.print(
                    f"{running.job.name} ({running.job.framework}, {running.job.queue}): {running.state}",
                    highlight=False,
                    soft_wrap=True,
                )


def _table(jobs: list[RunningJob]) -> Table:
    table = Table("job", "framework", "queue", "state", box=SIMPLE)
    for title in ("progress", "containers", "by Treadle", "natively"):
        table.add_column(title, justify="right")
    for running in jobs:
        job = running.job
        counts = (running.containers, running.placed.get("treadle", 0), running.placed.get("native", 0))
        table.add_row(job.name, job.framework, job.queue, running.state, f"{running.progress:.0f} %", *map(str, counts))
    return table
