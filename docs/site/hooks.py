"""What the site of the docs needs beyond MkDocs: a front page, and the files outside of docs/ that pages link to."""

from __future__ import annotations

import os.path
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
DOCS = "docs/"
ASSETS = ("tables.css", "iframe-worker.js")
BESIDE = "files/"
"""Where the site has files of the repository that are not in docs/."""

_LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)")


def on_files(files: Files, config: Any) -> Files:
    """Add README.md as the front page, style, script, files outside of docs/ that pages link to, and theirs."""
    for asset in ASSETS:
        files.append(File.generated(config, asset, abs_src_path=str(Path(__file__).with_name(asset))))
    waiting = ["README.md", *(DOCS + file.src_uri for file in files.documentation_pages())]
    known = set(waiting)
    while waiting:
        source = waiting.pop()
        if not source.startswith(DOCS):
            files.append(File.generated(config, place(source), abs_src_path=str(ROOT / source)))
        if source.endswith(".md"):
            linked = {target(source, link) for link in _LINK.findall((ROOT / source).read_text("utf-8"))}
            new = {one for one in linked - known if (ROOT / one).is_file() and not one.startswith(DOCS)}
            known |= new
            waiting += sorted(new)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a page with its links as the site has the files; a folder is no page, so that its name alone stays."""
    source = origin(page.file.src_uri)
    folders = re.sub(
        r"\[([^]]*)\]\((?!https?:|#)([^)#\s]+)\)",
        lambda found: found[1] if (ROOT / target(source, found[2])).is_dir() else found[0],
        markdown,
    )
    return _LINK.sub(lambda found: link_between(page.file.src_uri, source, found[1]), folders)


def link_between(page: str, source: str, link: str) -> str:
    """Return a link as the site has it, from a page; one that leads nowhere stays, for MkDocs to refuse it."""
    to = target(source, link)
    if not (ROOT / to).is_file():
        return link
    return os.path.relpath(place(to), PurePosixPath(page).parent).replace(os.sep, "/")


def target(source: str, link: str) -> str:
    """Return the file in the repository that a link of another file names."""
    return os.path.normpath(PurePosixPath(source).parent / link).replace(os.sep, "/")


def place(source: str) -> str:
    """Return where the site has a file of the repository."""
    if source == "README.md":
        return "index.md"
    return source.removeprefix(DOCS) if source.startswith(DOCS) else BESIDE + source


def origin(site_file: str) -> str:
    """Return which file of the repository a file of the site is."""
    if site_file == "index.md":
        return "README.md"
    return site_file.removeprefix(BESIDE) if site_file.startswith(BESIDE) else DOCS + site_file
