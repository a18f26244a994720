"""Pictures of docs are small and on a page."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.test_docs import PAGES

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"


@pytest.mark.parametrize("name", [file.name for file in sorted(FOLDER.glob("*.svg"))])
def test_a_picture_is_small_and_on_a_page(name: str) -> None:
    assert (FOLDER / name).stat().st_size < 120_000
    assert [page.name for page in PAGES if f"](pictures/{name})" in page.read_text()] != []
