"""The pages' links lead somewhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def anchors(page: Path) -> set[str]:
    """Return what links to a page may name: its headings, as they are turned into anchors."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_heading_leads_to_one(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", page.read_text())
    missing = [
        f"{file}#{anchor}" for file, anchor in links if anchor not in anchors(page.parent / file if file else page)
    ]
    assert missing == []


def test_the_tests_that_the_page_on_security_names_exist() -> None:
    named = re.findall(r"`(\w+(?:\.py|Test))(?:::(\w+))?`", (ROOT / "docs" / "security.md").read_text())
    assert len(named) > 30
    files = {path.name: path for path in (ROOT / "tests").rglob("test_*.py")}
    files |= {path.stem: path for path in (ROOT / "java-shim").rglob("src/test/**/*Test.java")}
    missing = [
        f"{file}::{test}"
        for file, test in named
        if file not in files or (test and not re.search(rf"\b(def|void) {test}\(", files[file].read_text()))
    ]
    assert missing == []


def test_the_places_that_the_page_of_terms_names_exist() -> None:
    places = re.findall(r"`([\w/]+\.py)` `(\w+)`", (ROOT / "docs" / "terms.md").read_text())
    assert len(places) > 50
    missing = []
    for file, name in places:
        path = ROOT / "python" / "treadle" / file
        tree = ast.parse(path.read_text()) if path.is_file() else ast.Module([], [])
        found = {one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.ClassDef)}
        if name not in found:
            missing.append(f"{file}: {name}")
    assert missing == []


def test_every_row_of_the_page_of_terms_names_a_place() -> None:
    rows = re.findall(r"^\| (?!term|---).*", (ROOT / "docs" / "terms.md").read_text(), re.MULTILINE)
    assert [row for row in rows if not re.search(r"`[\w/]+\.py` `\w+`", row)] == []
