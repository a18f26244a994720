"""Saying what goes on: a live line at a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

Say = Callable[[str], None]


@contextmanager
def saying(console: Console) -> Iterator[Say]:
    """Yield a function to call with each step; at a terminal a step replaces the one before it."""
    if console.is_terminal:
        with console.status("") as status:
            yield status.update
    else:
        last = ""

        def show(text: str) -> None:
            nonlocal last
            if text != last:
                console.print(text, highlight=False, soft_wrap=True)
            last = text

        yield show
