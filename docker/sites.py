"""Puts a profile's configuration over the common one: sites.py COMMON OWN TARGET.

Files are copied. Where both have a file of Hadoop's entries, its entries are the common ones and the profile's own,
which win.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from treadle_lab.minicluster.site import read_site, write_site


def main(common: Path, own: Path, target: Path) -> None:
    """Write the folder `target`."""
    shutil.copytree(common, target)
    for file in sorted(own.iterdir()) if own.is_dir() else []:
        if file.suffix == ".xml" and (target / file.name).is_file():
            write_site(target / file.name, {**read_site(target / file.name), **read_site(file)})
        else:
            shutil.copy(file, target)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
