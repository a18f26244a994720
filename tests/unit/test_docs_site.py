"""The docs as a site: every page has its place, every link leads somewhere, no page loads from elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="make docs, or pip install --group docs")

ROOT = Path(__file__).parents[2]
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
    for name in ("hooks.py", "tables.css"):
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
