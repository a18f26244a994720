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
    text = (ROOT / "docs" / "security.md").read_text()
    named = re.findall(r"`(\w+(?:\.py|Test))(?:::(\w+))?`", text)
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
    page = (ROOT / "docs" / "terms.md").read_text()
    # a place may name several things of its file: `FILE` `ONE`, `OTHER`
    found_in = re.findall(r"`([\w/]+\.py)`((?:,? `\w+`(?![/.]))+)", page)
    places = [(file, name) for file, names in found_in for name in re.findall(r"`(\w+)`", names)]
    assert len(places) > 50
    missing = []
    for file, name in places:
        path = ROOT / "python" / (file if file.startswith("treadle_lab/") else f"treadle/{file}")
        tree = ast.parse(path.read_text()) if path.is_file() else ast.Module([], [])
        found = {one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.ClassDef)}
        if name not in found:
            missing.append(f"{file}: {name}")
    assert missing == []


def test_the_classes_of_java_that_the_page_of_terms_names_exist() -> None:
    page = (ROOT / "docs" / "terms.md").read_text()
    names = re.findall(r"`(io\.treadle\.[\w.]+)`", page)
    assert names
    sources = ROOT / "java-shim" / "shim" / "src" / "main" / "java"
    paths = [sources / name.replace(".", "/") for name in names]
    assert [str(path) for path in paths if not (path.is_dir() or path.with_suffix(".java").is_file())] == []


def size_of(package: Path) -> tuple[int, int, int]:
    """Return files, lines, and lines of code (no comments, blanks or imports) of a package of Java."""
    files = sorted(package.glob("*.java"))
    lines = code = 0
    for file in files:
        text = file.read_text("utf-8")
        lines += len(text.splitlines())
        without = re.sub(
            r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|//[^\n]*',
            lambda found: found[0] * found[0].startswith('"'),
            text,
            flags=re.DOTALL,
        )
        rest = [line for line in without.splitlines() if line.strip()]
        code += sum(not line.startswith(("import ", "package ")) for line in rest)
    return len(files), lines, code


def test_the_shim_is_about_as_large_as_the_page_on_its_rooms_shows() -> None:
    page = (ROOT / "docs" / "rooms-of-java.md").read_text()
    table = page.partition("## How large the shim is")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*|all) \| (\d+) \| (\d+) \| (\d+) \|", table, re.MULTILINE)
    sources = ROOT / "java-shim" / "shim" / "src" / "main" / "java"
    found = {
        f"io.treadle.shim.{path.name}": size_of(path)
        for path in (sources / "io/treadle/shim").iterdir()
        if path.is_dir()
    }
    found["io.treadle.shim"] = size_of(sources / "io" / "treadle" / "shim")
    requirements = ROOT / "java-shim" / "requirements" / "src" / "main" / "java"
    found["io.treadle.shim.requirements"] = size_of(requirements / "io" / "treadle" / "shim" / "constraints")
    found["TreadleScheduler"] = size_of(next(sources.rglob("TreadleScheduler.java")).parent)
    named = set()
    for names, *shown in rows:
        parts = [
            name if "." in name or name[0].isupper() else f"io.treadle.shim.{name}"
            for name in re.findall(r"`([\w.]+)`", names)
        ]
        sizes = [found[part] for part in parts] if parts else list(found.values())
        named.update(parts)
        for count, number in zip(shown, map(sum, zip(*sizes, strict=True)), strict=True):
            assert abs(int(count) - number) <= 0.1 * number, f"{names} has {number}, not {count}"
    assert named == set(found)


def test_every_row_of_the_page_of_terms_names_a_place() -> None:
    rows = re.findall(r"^\| (?!term|---).*", (ROOT / "docs" / "terms.md").read_text(), re.MULTILINE)
    assert [row for row in rows if not re.search(r"`[\w/]+\.py` `\w+`", row)] == []
