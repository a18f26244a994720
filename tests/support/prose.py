"""The prose of a documentation page: its sentences, its words, and patterns that make it hard to read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

PATTERNS: Final = {
    "headless": r"\b[Ww]hat (?:is|was|are|were|has|had|they|it|the)\b[^?]*?[.;:,]",
    "fronted": r"(?:^|[.;:] )Of (?!course)[a-z` ]+",
    "somebody": r"\b(?:[Nn]obody|[Ss]omebody|[Ww]hoever)\b",
    "person": r"\b(?:he|him|his)\b",
    "archaic": r"\b(?:anew|alike|beside|mended|manieth|in the mean|for ever|put right|goes by|stands by)\b",
    "negated noun": r"(?<![Tt]here )\bis no [a-z]+\b",
    "genitive": r"\bof (?:yours|ours|theirs)\b",
    "file name as link": r"\[[^]]*\.md\]\(",
    "history": r"\b(?:busy machine|[Tt]he goal (?:was|is|of)|goals? (?:is|are|was|were) missed|on another day)\b",
}
"""Patterns by name; each page's counts may only fall (tests/data/words.yaml)."""
_END: Final = re.compile(r"(?<=[.!?])[)\"*]*\s+(?=[\"(`*\[A-Z0-9])")
_ITEM: Final = re.compile(r"^\s*(?:[-*]|\d+\.) +")


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs and points of lists of a page: without code, tables, headings and comments."""
    text = re.sub(r"^---\n.*?^---\n", "", text, count=1, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^ *```.*?^ *```", "\n", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    found: list[str] = []
    open_paragraph = False
    for line in text.splitlines():
        bare = line.lstrip("> ")
        if not bare or bare.startswith(("|", "#", "![")) or (line.startswith("    ") and not open_paragraph):
            open_paragraph = False
            continue
        if not open_paragraph or _ITEM.match(line):
            found.append("")
        open_paragraph = True
        found[-1] += " " + _ITEM.sub("", bare, count=1)
    return [paragraph.strip() for paragraph in found]


def sentences(text: str) -> list[str]:
    """Return the sentences of a page; code inside one counts as a word, a link as its text."""
    plain = []
    for paragraph in paragraphs(text):
        text_alone = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "`code`", paragraph))
        plain += [each for each in _END.split(text_alone) if re.search(r"\w", each)]
    return plain


def length(sentence: str) -> int:
    """Return how many words a sentence has."""
    return len(re.findall(r"\S*\w\S*", sentence))


def counts(text: str) -> dict[str, int]:
    """Return how often each pattern is in a page's prose and tables; those that are not are left out."""
    body = re.sub(r"^ *```.*?^ *```", "\n", text, flags=re.MULTILINE | re.DOTALL)
    body = re.sub(r"`[^`\n]*`", "`code`", body)
    return {name: number for name, pattern in PATTERNS.items() if (number := len(re.findall(pattern, body, re.M)))}


def words(page: Path) -> int:
    """Return how many words a page has: all of it."""
    return len(page.read_text("utf-8").split())


def kept_counts(pages: dict[str, Path]) -> str:
    """Return the text of tests/data/words.yaml: each page with its patterns that occur."""
    lines = ["# How often a pattern of tests/support/prose.py occurs on a page: counts may only fall.\n"]
    lines.append("# `python -m tests.support.prose` writes this file again.\n")
    for name, page in pages.items():
        found = counts(page.read_text("utf-8"))
        if found:
            inside = ", ".join(f"{pattern}: {number}" for pattern, number in found.items())
            lines.append(f"{name}: {{{inside}}}\n")
    return "".join(lines)


ROOT: Final = Path(__file__).parents[2]


def pages() -> dict[str, Path]:
    """Return README, CONTRIBUTING and the pages of the docs, by their path in the repository."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return {page.relative_to(ROOT).as_posix(): page for page in found}


if __name__ == "__main__":
    (ROOT / "tests" / "data" / "words.yaml").write_text(kept_counts(pages()), "utf-8")
