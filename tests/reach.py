"""The functions that the policy's inner loop can call, and their files: `python -m tests.reach`.

Calls are followed by name over the AST, from `treadle.policy.loop.place`. A share's own steps are left out: `rules`
dispatches to the selected share. Another function to start at: `python -m tests.reach treadle.policy.survey survey`.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1] / "python"
START: Final = ("treadle.policy.loop", "place")
SHARES: Final = "treadle.policy.shares."

Function = tuple[str, str]
"""Module and name."""


@cache
def parsed(module: str) -> tuple[dict[str, ast.FunctionDef], dict[str, Function], dict[str, str]]:
    """Return a module's functions, the functions that it imports, and the modules that it imports, by their names."""
    tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text("utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    imported: dict[str, Function] = {}
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("treadle."):
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if (ROOT / f"{name.replace('.', '/')}.py").exists():
                    modules[alias.asname or alias.name] = name
                else:
                    imported[alias.asname or alias.name] = (node.module, alias.name)
    return functions, imported, modules


def called(function: Function) -> set[Function]:
    """Return the functions of the product that a function calls."""
    functions, imported, modules = parsed(function[0])
    found: set[Function] = set()
    for node in ast.walk(functions[function[1]]):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Name(id=name) if name in functions:
                found.add((function[0], name))
            case ast.Name(id=name) if name in imported and imported[name][1] in parsed(imported[name][0])[0]:
                found.add(imported[name])
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in modules:
                if name in parsed(modules[module])[0]:
                    found.add((modules[module], name))
    return found


def reached(start: Function = START) -> list[Function]:
    """Return the functions that one can reach, itself among them, without the steps of shares."""
    found, left = {start}, [start]
    while left:
        new = {name for name in called(left.pop()) if not name[0].startswith(SHARES)} - found
        found |= new
        left += sorted(new)
    return sorted(found)


def main() -> None:
    """Print how many functions `place` or another function reaches, itself among them, by file."""
    functions = reached((sys.argv[1], sys.argv[2]) if len(sys.argv) > 2 else START)
    by_file: dict[str, list[str]] = {}
    for module, name in functions:
        by_file.setdefault(module, []).append(name)
    for module, names in by_file.items():
        print(f"{module:32}{len(names):4}  {', '.join(names)}")
    print(f"{len(functions)} functions in {len(by_file)} files")


if __name__ == "__main__":
    main()
