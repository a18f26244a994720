"""Mistakes of a user."""

from __future__ import annotations


class UserError(Exception):
    """Something that the user can put right; the text says what and how.

    The command line shows the text without a stack trace and ends with exit code 2.
    """


def printable(text: str, instead: str = " ") -> str:
    """Return a text that others wrote without what begins a line, moves the cursor or commands a terminal."""
    return "".join(character if character.isprintable() else instead for character in text)
