"""Every command line of `treadle` on the pages is one that its command takes: names, options, arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.support.command_lines import parse
from tests.support.prose import pages

BLOCK = re.compile(r"^ *```(?:sh|console|)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
BETWEEN = re.compile(r"&&|\|\||;|\|| & *$|>")
BEFORE = re.compile(r"^(?:sudo -u \w+|on_cluster|treadle minicluster exec --) ")
SYNOPSIS = re.compile(r"[\[\]…]")


def command_lines(text: str) -> Iterator[str]:
    """Yield what follows `treadle` in the blocks of a page; synopses, which have brackets, are left out."""
    blocks = [block.replace("\\\n", " ") for block in BLOCK.findall(text)]
    for line in [line for block in blocks for line in block.splitlines()] + re.findall(r"^ {4}(\S.*)$", text, re.M):
        plain = re.sub(r"\s#.*", "", line.removeprefix("$ "))
        for part in BETWEEN.split(plain):
            found = re.match(r"(?:\S*/)?treadle (.*)$", BEFORE.sub("", part.strip()))
            if found and not SYNOPSIS.search(found[1]):
                yield found[1]


ROOT = Path(__file__).resolve().parents[2]
INLINE = re.compile(r"(?<![\w/-])`treadle ([a-z][^`\n]*)`")
IN_FILE = re.compile(
    r"^(?:# *(?:\$ )?|ExecStart=\S*/|RUN (?:\S*/)?|.*\bexec |.*\$\(BIN\)/| \"command\": \")treadle ([a-z][^\"]*?)"
    r"\"?,?$",
    re.MULTILINE,
)
TEXTS = {".md", ".py", ".yaml", ".java", ".sh", ".service", ".socket", ".json", ".toml"}
NOT_COMMANDS = {"resourcemanager", "without Treadle"}
"""What stands in backquotes after a user's name."""


def texts(*folders: str) -> Iterator[tuple[str, str]]:
    """Yield the files below folders of the repository, and the Makefile, that are text: name and content."""
    found = [ROOT / "Makefile", *(file for folder in folders for file in sorted((ROOT / folder).rglob("*")))]
    for file in found:
        if file.is_file() and (file.suffix in TEXTS or file.name in {"Makefile", "Dockerfile"}):
            yield file.relative_to(ROOT).as_posix(), file.read_text("utf-8")


def inline(text: str, pattern: re.Pattern[str]) -> Iterator[str]:
    """Yield the command lines that a pattern finds, without synopses and shell variables."""
    plain = text.replace("\\\n", " ")
    lines = (BETWEEN.split(line)[0].strip() for line in pattern.findall(plain))
    return (line for line in lines if not re.search(r"[\[\]…$]|\.\.\.", line) and line not in NOT_COMMANDS)


LINES = [(name, line) for name, page in pages().items() for line in command_lines(page.read_text("utf-8"))]
LINES += [(name, line) for name, page in pages().items() for line in inline(page.read_text("utf-8"), INLINE)]
LINES += [
    (name, line)
    for name, text in texts("conf", "docker", "docs/examples")
    for pattern in (INLINE, IN_FILE)
    for line in inline(text, pattern)
]
if find_spec("treadle_lab") is None:  # as on the wheel
    LINES = [each for each in LINES if each[1].split()[0] not in ("minicluster", "demo", "lab")]
LINES = list(dict.fromkeys(LINES))


def test_pages_have_command_lines() -> None:
    assert len(LINES) > 80


@pytest.mark.parametrize(("name", "line"), LINES, ids=lambda value: value[:60])
def test_a_command_line_parses(name: str, line: str) -> None:
    parse(line)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("simulat x.yaml", "simulat"),
        ("simulate x.yaml --seed-count 3", "No such option"),
        ("policy check --scenario", "requires an argument"),
        ("policy defaults", "no command policy defaults"),
        ("policy check a.yaml b.yaml", "b.yaml is not expected"),
    ],
)
def test_a_wrong_command_line_is_refused(line: str, complaint: str) -> None:
    with pytest.raises(Exception, match=complaint):
        parse(line)


OLD = re.compile(
    r"(?<![\w-])treadle (?:jar|conf|profiles|record|dags|bench|reproduce|results|plan|share|policy defaults)(?![\w-])"
    r"|treadle policy parts|treadle sidecar --|TREADLE_PROFILES|(?<![\w-])--(?:json|first-seed|jobs-max|draw)(?![\w-])"
)
KEEPS_OLD = {"tests/lab/test_reference.py", "tests/speed/sides.py", "tests/unit/test_docs_commands.py"}
"""What looks for old names, and what runs a commit from before they changed."""


def test_no_old_name_of_a_command_or_an_option_is_left() -> None:
    pages_ = [
        (name, page.read_text("utf-8")) for name, page in (pages() | {"CHANGELOG.md": ROOT / "CHANGELOG.md"}).items()
    ]
    others = texts("conf", "docker", "docs/examples", "docs/results/kept", "python", "tests", "java-shim")
    found = [(name, old[0]) for name, text in [*pages_, *others] for old in OLD.finditer(text)]
    assert [each for each in found if each[0] not in KEEPS_OLD] == []
