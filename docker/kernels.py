"""Copies what the engine has compiled here to where the image's package looks for it: kernels.py FOLDER PACKAGE.

numba keeps code in a folder that it names after the one of the source. All else that the code depends on (sources,
numba, processor) it checks itself, and compiles anew what does not fit.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from numba.core.caching import UserProvidedCacheLocator

import treadle
from treadle.compiled.functions import cache_folder


def subfolder(source: Path) -> str:
    """Return the name of the folder of what is compiled from a file."""
    return str(UserProvidedCacheLocator.get_suitable_cache_subpath(str(source)))


def main(target: Path, package: Path) -> None:
    """Copy the folders with code from files of this package, for the same files in another one."""
    here = Path(treadle.__file__).parent
    kept = Path(cache_folder())
    for folder in sorted({file.parent.relative_to(here) for file in here.rglob("*.py")}):
        compiled = kept / subfolder(here / folder / "any.py")
        if compiled.is_dir():
            shutil.copytree(compiled, target / kept.name / subfolder(package / folder / "any.py"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
