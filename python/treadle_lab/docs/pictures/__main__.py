"""`python -m treadle_lab.docs.pictures docs/pictures [NAME ...]` draws the docs' pictures anew: all, or those named."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from treadle_lab.docs.pictures.conflicts import draw_conflicts
from treadle_lab.docs.pictures.dag import draw_troublesome
from treadle_lab.docs.pictures.hdrf import draw_hdrf
from treadle_lab.docs.pictures.pilots import draw_pilots
from treadle_lab.docs.pictures.rooms import draw_rooms

PICTURES: Final[dict[str, Callable[[Path], None]]] = {
    "rooms": draw_rooms,
    "hdrf-tree": draw_hdrf,
    "pilots": draw_pilots,
    "troublesome-tasks": draw_troublesome,
    "conflicts": draw_conflicts,
}

if __name__ == "__main__":
    folder, *names = sys.argv[1:]
    unknown = set(names) - set(PICTURES)
    if unknown:
        sys.exit(f"{', '.join(sorted(unknown))}: there is no such picture; there are {', '.join(PICTURES)}")
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in names or PICTURES:
        file = Path(folder, f"{name}.svg")
        PICTURES[name](file)
        sys.stdout.write(f"wrote {file}\n")
