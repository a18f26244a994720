"""Words of messages to a user."""

from __future__ import annotations

import pytest

from treadle.errors import counted, nearest


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 histories"), (1, "1 history"), (2, "2 histories"), (1000, "1000 histories")]
)
def test_one_is_not_several(number: int, said: str) -> None:
    assert counted(number, "history", "histories") == said
    assert counted(number, "job") == f"{number} job{'' if number == 1 else 's'}"


def test_the_word_that_was_meant_is_named() -> None:
    assert nearest("wieght", ["weight", "tasks"]) == "; did you mean weight?"
    assert nearest("xyz", ["weight", "tasks"]) == ""
    assert nearest("x", []) == ""
