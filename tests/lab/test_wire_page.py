"""The page docs/wire-format.md and the file that Java reads are as the schema prints them."""

from __future__ import annotations

from pathlib import Path

from treadle_lab.docs.wire import document_text, with_tables

ROOT = Path(__file__).resolve().parents[2]
JAVA = "java-shim/shim/src/main/resources/io/treadle/shim/wire/schema.json"


def test_the_page_has_the_tables_of_the_schema() -> None:
    page = (ROOT / "docs" / "wire-format.md").read_text("utf-8")
    assert page == with_tables(page), "run python -m treadle_lab.docs.wire docs/wire-format.md"


def test_the_file_that_java_reads_is_printed() -> None:
    assert (ROOT / JAVA).read_text("utf-8") == document_text(), f"run python -m treadle_lab.docs.wire {JAVA}"
