"""The packages are no larger than their budgets, and budgets follow what becomes smaller."""

from __future__ import annotations

import re
from dataclasses import asdict

import pytest
from tests.reach import reached
from tests.shape import ROOT, budgets, size_of, statements

SLACK = 0.03
REACHED = 60
"""The most functions that the inner loop may call, shares' own steps aside."""


@pytest.mark.parametrize("package", budgets())
def test_a_package_is_about_as_large_as_its_budget(package: str) -> None:
    size = asdict(size_of((ROOT / "python" / package).rglob("*.py")))
    for name, most in asdict(budgets()[package]).items():
        assert size[name] <= most, f"{name} of {package}: make it smaller, or raise tests/size.toml and say why"
        assert size[name] >= (1 - SLACK) * most, f"{name} of {package}: lower it in tests/size.toml"


def test_the_inner_loop_calls_few_functions() -> None:
    functions = reached()
    assert ("treadle.policy.node_search", "scan") in functions
    assert len(functions) <= REACHED, "python -m tests.reach lists them"


def test_imports_and_texts_are_no_statements() -> None:
    assert statements('"""A text."""\nimport json\nfrom json import loads\n\nVALUE = 1\n"""Of what."""\n') == 1
    assert statements("def one():\n    '''A text.'''\n    if True:\n        return 1\n") == 3


def test_the_check_of_a_change_names_tests_that_exist() -> None:
    """A name that has gone would end the check before the wheel is tested."""
    said = re.findall(r"unit/(\w*)\{([\w,]+)\}([.\w]*)", (ROOT / ".ci" / "run").read_text("utf-8"))
    paths = [f"unit/{before}{name}{after}" for before, names, after in said for name in names.split(",")]
    assert len(paths) > 5
    assert [path for path in paths if not (ROOT / "tests" / path).exists()] == []
