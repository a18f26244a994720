"""The source files behind some code, by imports, and a digest of their behaviour.

Stored recordings and results name the code that made them, and folders of compiled kernels are named after it. Only
Python's library is imported: Spark's workers run this file before they have the rest of the package.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

DECISION: Final = "treadle.engine"
"""The package whose imports determine all decisions."""

_PACKAGES: Final = Path(__file__).resolve().parents[1]
_BODIES: Final = ("body", "orelse", "handlers", "finalbody", "cases")


def trees_behind(*roots: str, packages: Path = _PACKAGES) -> dict[Path, ast.Module]:
    """Return the files that roots import, directly or indirectly, with their trees without docstrings.

    Args:
        roots: modules, or packages with all their modules
        packages: the parent folder of the packages; imports from elsewhere are ignored

    Raises:
        ValueError: a root has no file.
    """
    trees: dict[Path, ast.Module] = {}
    todo = [file for root in roots for file in _files_of_root(root, packages)]
    while todo:
        file = todo.pop()
        if file in trees:
            continue
        trees[file] = ast.parse(file.read_bytes())
        names = (*_packages_above(file, packages), *_imported(trees[file]))
        todo += [needed for name in names if (needed := _file_of(name, packages)) is not None]
    return dict(sorted(trees.items()))


def digest(*roots: str, packages: Path = _PACKAGES) -> str:
    """Return a digest of the code that roots import, independent of comments, docstrings and formatting.

    See `trees_behind` for arguments and errors.
    """
    result = hashlib.sha256()
    for file, tree in trees_behind(*roots, packages=packages).items():
        result.update(f"{file.relative_to(packages)}\n{ast.dump(tree)}\n".encode())
    return result.hexdigest()


def _files_of_root(root: str, packages: Path) -> list[Path]:
    folder = packages.joinpath(*root.split("."))
    alone = folder.with_suffix(".py")
    files = [alone] if alone.is_file() else sorted(folder.rglob("*.py"))
    if not files:
        raise ValueError(f"{root} has no file in {packages}")
    return files


def _file_of(name: str, packages: Path) -> Path | None:
    place = packages.joinpath(*name.split("."))
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None)


def _packages_above(file: Path, packages: Path) -> Iterator[str]:
    for folder in list(file.relative_to(packages).parents)[:-1]:
        yield ".".join(folder.parts)


def _imported(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a file imports, each of which may be a module; remove docstrings from its tree."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        for name in _BODIES:
            body = getattr(node, name, None)
            if isinstance(body, list):
                body[:] = [inner for inner in body if not _is_text(inner)]
                todo += body
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
