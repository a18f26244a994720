"""Parts from a user's file: found, checked, tried out, and what is said of those that will not do."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.config.errors import ConfigError
from treadle.config.reader import parse_settings
from treadle.live.live_settings import read_live_settings

SHARE = """import numpy as np

class Even:
    def __init__(self, weight: float = 1.0):
        self.weight = weight

    def keys(self, view):
        return self.weight * view.queue_used[:, 0]
"""


def write(folder: Path, part: str, source: str, settings: str = "") -> Path:
    (folder / "my_part.py").write_text(source)
    file = folder / "t.yaml"
    file.write_text(f"policy:\n  {part}:\n    kind: file\n    path: my_part.py\n    class: Even\n{settings}")
    return file


def said(file: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_live_settings(file)
    (line,) = caught.value.lines()
    return line.removeprefix(f"{file.parent}/")


def test_a_part_is_found_beside_the_yaml_and_made_with_its_parameters(tmp_path: Path) -> None:
    settings = read_live_settings(write(tmp_path, "share", SHARE, "    parameters: {weight: 2.5}\n"))
    assert settings.policy.name() == "gate=all share=my_part.py:Even order=queue fit=packing estimate=none"
    made = settings.policy.share.parameters.make()  # type: ignore[attr-defined]
    assert made.weight == 2.5


def test_another_content_is_another_digest(tmp_path: Path) -> None:
    file = write(tmp_path, "share", SHARE)
    first = read_live_settings(file)
    assert read_live_settings(file).digest == first.digest
    write(tmp_path, "share", SHARE.replace("1.0", "3.0"))
    second = read_live_settings(file)
    assert second.digest != first.digest
    assert second.policy.share.parameters.make().weight == 3.0  # type: ignore[attr-defined]


def test_kept_contents_are_used_instead_of_the_files(tmp_path: Path) -> None:
    file = write(tmp_path, "share", SHARE)
    source = read_live_settings(file).source
    assert source is not None
    (tmp_path / "my_part.py").unlink()
    again = parse_settings(source.file, source.text, kept=source.part_files, trust_code=True)
    assert again.digest == source.digest
    assert again.policy.share.parameters.make().weight == 1.0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("part", "source", "line"),
    [
        (
            "share",
            SHARE.replace("class Even", "class Evan"),
            "t.yaml:5: policy.share.class: no class 'Even' in my_part.py: it has Evan; did you mean Evan?",
        ),
        ("share", "Even = 3\n", "t.yaml:5: policy.share.class: no class 'Even' in my_part.py: it has none"),
        (
            "fit",
            SHARE,
            "t.yaml:5: policy.fit.class: my_part.py:3: Even has no method scores; write `def scores(self, view)` ",
        ),
        (
            "share",
            "class Even:\n\n    def keys(self):\n        return 1\n",
            "t.yaml:5: policy.share.class: my_part.py:3: keys cannot be called: too many positional arguments; write ",
        ),
        (
            "gate",
            "class Even:\n    async def allows(self, view):\n        return True\n",
            "t.yaml:5: policy.gate.class: my_part.py:2: allows is no plain function; write `def allows(self, view)` ",
        ),
        (
            "estimate",
            "class Even:\n    durations_ms = 3\n",
            "t.yaml:5: policy.estimate.class: my_part.py:1: Even.durations_ms is no method; write `def durations_ms(",
        ),
        ("share", "import numby\n", "t.yaml:4: policy.share.path: my_part.py:1: ModuleNotFoundError: No module named"),
        ("share", "class Even\n", "t.yaml:4: policy.share.path: my_part.py:1: SyntaxError: expected ':'; put it right"),
        ("share", "x = 1\nexit(3)\n", "t.yaml:4: policy.share.path: my_part.py:2: SystemExit: 3; put it right"),
    ],
)  # fmt: skip
def test_an_error_names_files_lines_and_a_remedy(tmp_path: Path, part: str, source: str, line: str) -> None:
    assert said(write(tmp_path, part, source)).startswith(line)


def test_parameters_must_be_what_the_constructor_takes(tmp_path: Path) -> None:
    line = said(write(tmp_path, "share", SHARE, "    parameters: {wait: 2}\n"))
    assert line == (
        "t.yaml:6: policy.share.parameters: my_part.py:3: Even cannot be made from these: "
        "got an unexpected keyword argument 'wait'"
    )


def test_a_file_that_everybody_may_write_to_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, "share", SHARE)
    (tmp_path / "my_part.py").chmod(0o666)
    assert "may be written by everybody; take that right away with chmod go-w" in said(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    file = write(tmp_path, "share", SHARE)
    (tmp_path / "my_part.py").unlink()
    assert said(file).endswith("my_part.py: No such file or directory; check the path and its permissions")


@pytest.mark.parametrize(
    ("part", "body", "problem"),
    [
        ("share", "return view.queue_used", "keys returned shape (3, 2) instead of (3,)"),
        ("share", "return [None] * len(view.queues)", "keys returned an array of object"),
        ("share", "return [float('nan')] * len(view.queues)", "keys returned NaN at index 0"),
        ("share", "view.queues['parent'] = 3", "my_part.py:3: ValueError: assignment destination is read-only"),
        ("share", "return 1 // 0", "my_part.py:3: ZeroDivisionError: integer division or modulo by zero"),
        ("share", "raise SystemExit('bye')", "my_part.py:3: SystemExit: bye"),
        ("order", "return [view.applications['id'].argmin()]", "keys returned shape (1,) instead of (4,)"),
        ("order", "return view.applications['id'] - view.applications['id'].min()", "ValueError: zero-size array"),
        ("fit", "return view.node_free.T", "scores returned shape (2, 8) instead of (8,) or (4, 8)"),
        ("gate", "return view.requests['count']", "allows returned an array of int32"),
        ("gate", "return [True]", "allows returned shape (1,) instead of (4,)"),
        ("estimate", "return [-1.0] * len(view.requests)", "durations_ms returned -1.0"),
    ],
)
def test_a_part_is_tried_out_on_a_small_cluster(tmp_path: Path, part: str, body: str, problem: str) -> None:
    method = {"gate": "allows", "fit": "scores", "estimate": "durations_ms"}.get(part, "keys")
    line = said(write(tmp_path, part, f"class Even:\n    def {method}(self, view):\n        {body}\n"))
    assert line.startswith(f"t.yaml:2: policy.{part}: tried out on a small cluster: ")
    assert problem in line
    assert "Traceback" not in line


def test_a_constructor_that_fails_is_reported(tmp_path: Path) -> None:
    source = (
        "class Even:\n    def __init__(self):\n        open('/not/there')\n    def keys(self, view):\n        pass\n"
    )
    assert "policy.share: tried out on a small cluster: my_part.py:3: FileNotFoundError" in said(
        write(tmp_path, "share", source)
    )
