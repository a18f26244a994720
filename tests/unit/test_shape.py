"""The packages are no larger than their budgets, and budgets follow what becomes smaller."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from tests.shape import ROOT, budgets, size_of, statements

SLACK = 0.03


@pytest.mark.parametrize("package", budgets())
def test_a_package_is_about_as_large_as_its_budget(package: str) -> None:
    size = asdict(size_of((ROOT / "python" / package).rglob("*.py")))
    for name, most in asdict(budgets()[package]).items():
        assert size[name] <= most, f"{name} of {package}: make it smaller, or raise tests/size.toml and say why"
        assert size[name] >= (1 - SLACK) * most, f"{name} of {package}: lower it in tests/size.toml"


def test_imports_and_texts_are_no_statements() -> None:
    assert statements('"""A text."""\nimport json\nfrom json import loads\n\nVALUE = 1\n"""Of what."""\n') == 1
    assert statements("def one():\n    '''A text.'''\n    if True:\n        return 1\n") == 3
