"""Mistakes of a user, and words of messages: how many there are of something, which word may have been meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from treadle import __version__


class UserError(Exception):
    """Something that the user can put right; the text says what and how.

    The command line shows the text without a stack trace and ends with exit code 2.
    """


def printable(text: str, instead: str = " ") -> str:
    """Return a text that others wrote without what begins a line, moves the cursor or commands a terminal."""
    return "".join(character if character.isprintable() else instead for character in text)


def install_extra(extra: str) -> str:
    """Return how to install an extra: from the wheel, since an index may have another project of the same name."""
    return f"pip install 'treadle-{__version__}-py3-none-any.whl[{extra}]'"


STARVED: Final = "starved: queue "
"""How the engine's line on a queue begins that stays below what it is entitled to; the queue's path follows."""


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number and what it counts: ``1 history``, ``2 histories``.

    Args:
        number: how many
        one: the noun of one of them
        many: that of several; with an ``s`` if left out
    """
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean X?`` with the word nearest to one that is not known; empty if none is near."""
    near = get_close_matches(word, sorted(known), 1)
    return f"; did you mean {near[0]}?" if near else ""
