"""The boxes of a documentation page: files by the name in their first line, and commands with what they print."""

from __future__ import annotations

import re
from pathlib import Path


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return the fenced blocks of a page, in order: the language and the text."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def files_of(page: Path) -> dict[str, str]:
    """Return the files that a page shows: blocks whose first line is a comment that is a file's name."""
    found = (re.match(r"# (\S+\.\w+)\n", text) for _, text in blocks(page))
    return {match.group(1): match.string for match in found if match}


def commands(page: Path) -> list[tuple[str, str]]:
    """Return the commands of a page's consoles, and what each is said to print."""
    found = []
    for language, text in blocks(page):
        if language == "console":
            for part in text.removeprefix("$ ").split("\n$ "):
                command, _, output = part.partition("\n")
                found.append((command, output))
    return found
