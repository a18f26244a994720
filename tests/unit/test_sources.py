"""The files behind some code: all that it imports and no others; the digest follows what they do."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.sources import DECISION, digest, trees_behind

FILES = {
    "one/__init__.py": "",
    "one/start.py": "from one.inner import deep\nimport json\n",
    "one/inner/__init__.py": "def lazily():\n    if json:\n        from two import far\n",
    "one/inner/deep.py": '"""What it is."""\n\nVALUE = 1\n"""Of what."""\n',
    "one/other.py": "",
    "two/__init__.py": "",
    "two/far.py": "",
}


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def names(packages: Path, *roots: str) -> set[str]:
    return {str(file.relative_to(packages)) for file in trees_behind(*roots, packages=packages)}


def test_what_is_imported_is_found_at_any_depth_and_within_functions(packages: Path) -> None:
    assert names(packages, "one.start") == FILES.keys() - {"one/other.py"}
    assert names(packages, "one") == set(FILES), "a package stands for all its modules"
    assert names(packages, "two.far") == {"two/__init__.py", "two/far.py"}


def test_a_root_without_files_is_an_error(packages: Path) -> None:
    (packages / "empty").mkdir()
    for root in ("empty", "one.gone", "three"):
        with pytest.raises(ValueError, match=f"{root} has no file"):
            digest("one", root, packages=packages)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ('"""Something else."""\nVALUE = (\n    1  # one\n)\n', True),
        ("VALUE = 2\n", False),
        ('VALUE = 1\nTEXT = """Of what."""\n', False),
    ],
)
def test_the_digest_changes_with_code_alone(packages: Path, text: str, same: bool) -> None:
    before = digest("one.start", packages=packages)
    (packages / "one" / "other.py").write_text("VALUE = 1\n")
    (packages / "one" / "inner" / "deep.py").write_text(text)
    assert (digest("one.start", packages=packages) == before) == same


def test_a_file_that_moves_is_another(packages: Path) -> None:
    before = digest("one", packages=packages)
    (packages / "one" / "other.py").rename(packages / "one" / "another.py")
    assert digest("one", packages=packages) != before


def test_a_decision_is_made_of_the_model_and_the_policy_and_of_no_command() -> None:
    rooms = {file.stem if file.parent.name == "treadle" else file.parent.name for file in trees_behind(DECISION)}
    assert {"engine", "model", "policy", "shares", "compiled", "config", "events"} <= rooms
    assert rooms.isdisjoint({"cli", "live", "simulator"})
