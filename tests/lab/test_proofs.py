"""The proofs of defects, which no linter reads: what they import of Treadle exists."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PROOFS = Path(__file__).parents[1] / "proofs"
FILES = [file for file in sorted(PROOFS.rglob("*.py")) if "treadle" in file.read_text("utf-8")]


def imports(text: str) -> Iterator[tuple[str, str]]:
    """Yield module and name of each import of Treadle, also of programs in texts; not those for older commits."""
    tree = ast.parse(text)
    older = {each for one in ast.walk(tree) if isinstance(one, ast.ExceptHandler) for each in ast.walk(one)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("treadle") and node not in older:
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "\nfrom treadle" in node.value:
            yield from imports(node.value)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(PROOFS).as_posix())
def test_what_a_proof_imports_exists(file: Path) -> None:
    for module, name in imports(file.read_text("utf-8")):
        assert name == "*" or hasattr(__import__(module, fromlist=[name]), name), f"{module} has no {name}"


def test_imports_are_found_in_texts_too_and_those_for_older_commits_are_not() -> None:
    found = list(imports((PROOFS / "security-proofs/keys/prove_engine.py").read_text("utf-8")))
    assert ("treadle.engine.testing", "small_cluster") in found
    assert all(module != "treadle.engine.invented_cluster" for module, _ in found)
