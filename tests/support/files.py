"""Files that a test writes."""

from __future__ import annotations

from pathlib import Path


def written(file: Path, text: str) -> Path:
    """Write a file; return where it is."""
    file.write_text(text, encoding="utf-8")
    return file
