"""Pages are what the code says: docs/reference, and the wire's format with the file that Java reads."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path

import pytest

from treadle.events import Fate
from treadle_lab.docs.reference import PAGES, _found, command_paths, help_of, meanings, metric_of, table, written
from treadle_lab.docs.wire import document_text, with_tables

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"
GUIDES = ("administrator.md", "watch.md", "several-engines.md", "reference/reasons.md")
JAVA = "java-shim/shim/src/main/resources/io/treadle/shim/wire/schema.json"
SHIM = ROOT / "java-shim/shim/src/main/java/io/treadle/shim"


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_what_the_code_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")  # whatever the terminal
    remedy = "run python -m treadle_lab.docs.reference docs/reference"
    assert (FOLDER / name).read_text("utf-8") == written(PAGES[name]), remedy


def test_the_folder_has_no_page_that_nothing_writes() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(PAGES)


def test_every_command_is_found_in_its_groups() -> None:
    paths = command_paths()
    assert {("explain",), ("policy", "use"), ("lab", "bench", "engine"), ("lab", "reproduce", "graphene")} <= set(paths)
    assert len(paths) == len(set(paths))


def test_no_help_names_a_type_of_python() -> None:
    helps = {path: help_of(path) for path in command_paths()}
    assert "--plot FOLDER" in helps["simulate",] and "--output table|json" in helps["status",]
    assert [path for path, text in helps.items() if re.search(r"<[a-z]", text.replace("<=", ""))] == []


NO_RESULT = {
    *("install", "uninstall", "dashboard", "policy use", "policy rollback", "history export", "history delete"),
    *("sidecar run", "sidecar warm-up", "sidecar restart", "workload convert", "lab dags"),
    *("minicluster start", "minicluster stop", "minicluster run", "minicluster exec"),
    *("minicluster job", "minicluster restart-rm"),
}
"""Commands that change something or write data in a form of its own."""
RUNS_ANOTHER = {"minicluster run", "minicluster exec"}
"""Commands that leave unknown options to the one that they run."""


def test_every_result_is_a_table_or_json() -> None:
    options = {
        " ".join(path): {each for option in _found(path).params for each in option.opts} for path in command_paths()
    }
    assert {name for name, own in options.items() if not {"-o", "--output"} <= own} == NO_RESULT
    assert {name for name, own in options.items() if not {"-q", "-v", "--quiet", "--verbose"} <= own} == RUNS_ANOTHER
    assert [name for name, own in options.items() if "--json" in own] == []
    assert [name for name, own in options.items() if "--rounds" in own] == ["lab bench cluster"]


def test_every_number_of_the_shims_bean_is_on_a_page() -> None:
    """Those of fates are on the page of reasons, the others in tables of guides."""
    sources = "".join(path.read_text() for path in [*SHIM.glob("metrics/*.java"), SHIM / "Shim.java"])
    counters = re.sub(r'\(".*?"\)', "", sources.partition("enum Counter {")[2].partition(";\n")[0])
    named = set(re.findall(r'(?:gauge|counter)\("(\w+)"', sources))
    named |= {name.title().replace("_", "") for name in re.findall(r"\w+", counters)}
    guides = "".join((ROOT / "docs" / name).read_text() for name in GUIDES)
    assert {"LeaseHeld", "Rejected", "CaughtExceptions", "FrameBytes"} <= named
    assert sorted(name for name in named - {"Rejected"} if name not in guides) == []


def test_the_metric_of_a_fate_is_the_shims() -> None:
    assert metric_of(Fate.NODE_FULL) == "RejectedNodeFull"
    assert metric_of(Fate.COMMITTED) == "Committed"
    assert metric_of(Fate.NOT_OWNER) == "", "a sidecar gives it; no proposal that it drops reaches the shim"


def test_a_cell_is_one_line() -> None:
    assert table(("a",), [("one ``two`` | \n three",)]) == "| a |\n| --- |\n| one `two` \\| three |\n"


def test_a_member_without_a_meaning_is_named() -> None:
    class Kind(Enum):
        ONE = 1
        """The first."""
        TWO = 2

    with pytest.raises(ValueError, match="Kind: nothing says what TWO means"):
        meanings(Kind)


def test_the_page_has_the_tables_of_the_schema() -> None:
    page = (ROOT / "docs" / "wire-format.md").read_text("utf-8")
    assert page == with_tables(page), "run python -m treadle_lab.docs.wire docs/wire-format.md"


def test_the_file_that_java_reads_is_printed() -> None:
    assert (ROOT / JAVA).read_text("utf-8") == document_text(), f"run python -m treadle_lab.docs.wire {JAVA}"
