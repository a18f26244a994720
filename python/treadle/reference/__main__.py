"""`python -m treadle.reference docs/reference` writes the pages of that folder anew."""

from __future__ import annotations

import sys
from pathlib import Path

from treadle.reference.pages import PAGES, written

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (folder / name).write_text(written(page), "utf-8")
