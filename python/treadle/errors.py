"""Mistakes of a user."""

from __future__ import annotations

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
