"""The pages' links lead somewhere."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.support.browser import Visitor, chromium

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BY_HAND = [page for page in PAGES if page.parent.name != "reference" and page.name != "summary.md"]


def without_code(page: Path) -> str:
    """Return a page's text without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def titles(page: Path) -> dict[str, str]:
    """Return what links to a page may name: its headings by anchor, the page's title also by an empty one."""
    headings = [heading.strip() for heading in re.findall(r"^#+ (.*)$", without_code(page), re.MULTILINE)]
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"): heading for heading in headings}
    return {"": headings[0], **anchors}


def plain(title: str) -> str:
    """Return a title or a link's text in lower case and without markup."""
    return " ".join(re.sub(r"[`*]", "", title).lower().split())


def with_other_texts(page: Path, pages: list[Path]) -> list[str]:
    """Return a page's links to pages and sections whose texts are not the titles, except in parts that are printed."""
    text = re.sub(r"<!-- from here on printed.*?<!-- to here -->", "", without_code(page), flags=re.DOTALL)
    links = re.findall(r"(?<!!)\[([^][]+)\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", text)
    found = []
    for shown, file, anchor in links:
        target = (page.parent / file).resolve() if file else page
        if target in pages and plain(shown) != plain(titles(target)[anchor]):
            found.append(f"[{shown}]({file}#{anchor}): {titles(target)[anchor]}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_heading_leads_to_one(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", page.read_text())
    missing = [
        f"{file}#{anchor}" for file, anchor in links if anchor not in titles(page.parent / file if file else page)
    ]
    assert missing == []


@pytest.mark.parametrize("page", BY_HAND, ids=lambda page: page.name)
def test_a_link_to_a_page_or_section_has_its_title(page: Path) -> None:
    assert with_other_texts(page, PAGES) == [], "the text of a link is the title of what it leads to"


def test_links_with_other_texts_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    other = tmp_path / "other.md"
    other.write_text("# The other\n\n## Its `part`\n")
    page.write_text(
        "# Page\n\n[the other](other.md), [Its part](other.md#its-part), [Page](#page), [a file](file.yaml),\n"
        "[that](other.md), [The other](other.md#its-part) and [below](#page)\n\n```\n[code](other.md)\n```\n"
    )
    assert with_other_texts(page, [page, other]) == [
        "[that](other.md#): The other",
        "[The other](other.md#its-part): Its `part`",
        "[below](#page): Page",
    ]


def missing_tests(named: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return those of the tests, a file and a name or none in it, that do not exist."""
    files = [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "java-shim").rglob("src/test/**/*Test.java")]
    return [
        (file, test)
        for file, test in named
        if not any(
            file in (path.name, path.stem) and (not test or re.search(rf"\b(def|void) {test}\(", path.read_text()))
            for path in files
        )
    ]


def test_the_tests_that_the_page_on_security_names_exist() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    named = re.findall(r"`(\w+(?:\.py|Test))(?:::(\w+))?`", text)
    assert len(named) > 30
    assert missing_tests(named) == []


def test_each_row_of_the_page_on_features_has_tests() -> None:
    section = (ROOT / "docs" / "features.md").read_text().partition("## Features of the CapacityScheduler")[2]
    rows = re.findall(r"^\| ([^|]+) \|", section.partition("\n## ")[0], re.MULTILINE)
    tests = yaml.safe_load((ROOT / "tests" / "data" / "features.yaml").read_text())
    assert list(tests) == [row for row in rows if row not in ("feature", "---")]
    assert all(tests.values())
    named = [name.partition("::") for names in tests.values() for name in names]
    assert missing_tests([(file, test) for file, _, test in named]) == []


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


# The docs as a site: every page has its place, every link leads somewhere, no page loads from elsewhere.

pytest.importorskip("mkdocs", reason="make docs, or pip install --group docs")

SITE = Path("docs", "site")


def build(root: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-f",
        str(root / SITE / "mkdocs.yml"),
        "-d",
        str(folder),
    ]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    built = build(ROOT, folder)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A checkout of two pages whose links are good."""
    (tmp_path / SITE).mkdir(parents=True)
    for name in ("hooks.py", "tables.css", "iframe-worker.js"):
        shutil.copy(ROOT / SITE / name, tmp_path / SITE)
    settings = (ROOT / SITE / "mkdocs.yml").read_text()
    (tmp_path / SITE / "mkdocs.yml").write_text(settings.split("nav:\n  - ")[0])
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "engine.yaml").write_text("policy: {}\n")
    (tmp_path / "conf" / "README.md").write_text("# Conf\n\n[the engine's](engine.yaml)\n")
    (tmp_path / "README.md").write_text("# Front\n\n[a page](docs/deep/page.md#there)\n")
    (tmp_path / "docs" / "deep").mkdir()
    (tmp_path / "docs" / "deep" / "page.md").write_text(
        "# Page\n\n## There\n\n[front](../../README.md) [conf](../../conf/README.md) [all of it](../../conf)\n"
    )
    return tmp_path


def test_every_page_is_on_the_site(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert len(pages) > 40
    assert [page for page in sorted(pages) if not (site / page).is_file()] == []
    assert "Hadoop cluster" in (site / "index.html").read_text()


def test_every_link_between_files_of_the_site_leads_to_one(site: Path) -> None:
    missing = [
        f"{page.relative_to(site)}: {link}"
        for page in site.rglob("*.html")
        if page.name != "404.html"
        for link in re.findall(r'(?:src|href)="(?!https?:|#|data:)([^"#?]+)', page.read_text())
        if not (page.parent / link).exists()
    ]
    assert missing == []


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    """A link may be followed; what a browser fetches by itself is the site's own."""
    loaded = re.compile(r'<(?:script|img|iframe|source)\b[^>]*\bsrc="https?:|<link\b[^>]*\bhref="https?:')
    styles = re.compile(r"@import\s|url\(\s*[\"']?(?:https?:)?//")
    assert [page.name for page in site.rglob("*.html") if loaded.search(page.read_text())] == []
    assert [sheet.name for sheet in site.rglob("*.css") if styles.search(sheet.read_text())] == []


def test_pages_opened_as_files_have_what_their_search_needs(site: Path) -> None:
    index = (site / "search" / "search_index.js").read_text()
    assert "Convert the queues" in index
    assert json.loads(index.removeprefix("var __index = ")) == json.loads(
        (site / "search/search_index.json").read_text()
    )
    without = [page.name for page in site.rglob("*.html") if 'iframe-worker.js">' not in page.read_text()]
    assert without == []


@pytest.mark.slow
@pytest.mark.parametrize("page", ["index.html", "results/hdrf.html"])
def test_a_browser_finds_words_in_pages_opened_as_files(site: Path, page: str) -> None:
    with chromium() as browser:
        visitor = Visitor(browser, (site / page).as_uri())
        visitor.page.goto(visitor.url)
        visitor.page.fill("[data-md-component=search-query]", "fs2cs", force=True)
        visitor.page.wait_for_selector(".md-search-result__link[href*=fair-scheduler]", state="attached")
        assert visitor.errors == []


def test_what_markdown_means_on_a_forge_is_what_the_site_shows(site: Path) -> None:
    """Python-Markdown wants four blanks where others take three, and an empty line before a list."""
    strange = []
    for page in site.rglob("*.html"):
        text = re.sub(r"<(pre|code|script)\b.*?</\1>", "", page.read_text(), flags=re.DOTALL)
        strange += [
            f"{page.relative_to(site)}: {paragraph[:80]}"
            for paragraph in re.findall(r"<p>(.*?)</p>", text, re.DOTALL)
            if re.search(r"```|^\||\n\s*(?:[-*]|\d+\.) |\n\|", paragraph)
        ]
    assert strange == []


def test_files_beside_the_docs_are_copied_with_what_they_link_to(small: Path) -> None:
    built = build(small, small / "build")
    assert built.returncode == 0, built.stderr
    page = (small / "build" / "deep" / "page.html").read_text()
    assert 'href="../index.html"' in page
    assert 'href="../files/conf/index.html"' in page
    assert "all of it" in page and 'href="../../conf"' not in page
    assert (small / "build" / "files" / "conf" / "engine.yaml").read_text() == "policy: {}\n"
    assert 'href="deep/page.html#there"' in (small / "build" / "index.html").read_text()


@pytest.mark.parametrize(
    ("link", "complaint"),
    [("docs/none.md", "none.md"), ("conf/none.yaml", "none.yaml"), ("docs/deep/page.md#nowhere", "nowhere")],
)
def test_a_link_that_leads_nowhere_is_refused(small: Path, link: str, complaint: str) -> None:
    (small / "README.md").write_text(f"# Front\n\n[a page]({link})\n")
    built = build(small, small / "build")
    assert built.returncode != 0
    assert complaint in built.stderr


def test_a_page_without_a_place_is_refused(small: Path) -> None:
    with (small / SITE / "mkdocs.yml").open("a") as settings:
        settings.write("nav:\n  - index.md\n")
    built = build(small, small / "build")
    assert built.returncode != 0
    assert "deep/page.md" in built.stderr
