"""How large the packages are, beside their budgets: `python -m tests.shape`."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
BUDGETS: Final = ROOT / "tests" / "size.toml"


@dataclass(frozen=True, slots=True)
class Size:
    """Lines, statements and files of some code."""

    lines: int
    statements: int
    files: int


def budgets() -> dict[str, Size]:
    """Return the most that each package may have."""
    return {name: Size(**row) for name, row in tomllib.loads(BUDGETS.read_text("utf-8")).items()}


def size_of(files: Iterable[Path]) -> Size:
    """Return how large files are together."""
    texts = [file.read_text("utf-8") for file in files]
    return Size(sum(len(text.splitlines()) for text in texts), sum(map(statements, texts)), len(texts))


def statements(text: str) -> int:
    """Return how many statements a file has, imports and lone texts left out."""
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt))
    return sum(not isinstance(node, ast.Import | ast.ImportFrom) and not _is_text(node) for node in nodes)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def main() -> None:
    """Print the size of each package, its parts and its budget."""
    for name, budget in budgets().items():
        package = ROOT / "python" / name
        print(f"{'':24}{'lines':>8}{'statements':>12}{'files':>7}")
        for part in sorted(path for path in package.iterdir() if path.is_dir() and any(path.rglob("*.py"))):
            _show(f"{name}/{part.name}", size_of(part.rglob("*.py")))
        _show(name, size_of(package.rglob("*.py")))
        _show("at most", budget)


def _show(name: str, size: Size) -> None:
    print(f"{name:24}{size.lines:8,}{size.statements:12,}{size.files:7,}")


if __name__ == "__main__":
    main()
