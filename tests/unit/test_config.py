"""treadle.yaml: what is taken, and what is said of what is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import Field
from tests.support.files import written
from tests.support.optional import present

from treadle.config import yaml_nodes
from treadle.config.part_files import BYTES_MAX as PART_BYTES_MAX
from treadle.config.parts import DEFAULTS, PART_KINDS, PARTS, Parameters, PartRegistry
from treadle.config.reader import parse_settings, peek_source, read_settings
from treadle.config.settings import default_settings
from treadle.config.text import default_yaml
from treadle.config.yaml_nodes import BYTES_MAX
from treadle.errors import ConfigError
from treadle.policy.catalogue import register_parts


class Packed(Parameters):
    """Parameters for the tests."""

    window: int = Field(default=64, ge=1, le=4096, description="How many.")
    weight: float = Field(default=0.1, ge=0, le=1, description="How much.")
    deep: bool = Field(default=True, description="Whether.")


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few parts, instead of the registered ones."""
    registry = PartRegistry()
    for part, kind in DEFAULTS.items():
        if part != "fit":
            registry.register(part, kind)(lambda parameters: parameters)
    registry.register("fit", "first_fit")(lambda parameters: parameters)
    registry.register("fit", "packing", Packed)(lambda parameters, *rest: (parameters, rest))
    monkeypatch.setattr(PARTS, "_kinds", registry._kinds)


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_settings("conf/t.yaml", text)
    return caught.value.lines()


KEYS_OF_POLICY = "estimate, fit, gate, ignore_priority, order, share"


@pytest.mark.parametrize("text", ["", "# nothing\n", "policy:\n", "policy: {}\nengine_reservation:\n", "{}"])
@pytest.mark.usefixtures("parts")
def test_what_is_left_out_has_its_default(text: str) -> None:
    assert parse_settings("f", text) == default_settings()


@pytest.mark.usefixtures("parts")
def test_settings_are_taken() -> None:
    text = "policy: {fit: {kind: packing, window: 8, weight: 1}}\nengine_reservation: {nodes_max: 0}\nseed: 3\n"
    settings = parse_settings("f", text)
    assert settings.policy.fit.parameters == Packed(window=8, weight=1.0)
    assert settings.policy.fit.make("x") == (Packed(window=8, weight=1.0), ("x",))
    held = settings.engine_reservation
    assert (held.nodes_max, held.duration_ms, settings.seed) == (0, 30_000, 3)
    assert settings.policy.name() == "gate=all share=capacity order=queue fit=packing estimate=none"


KEYS = (
    "constraints, engine_reservation, engines, history, in_flight, kernels, limits, listener, plans, policy, "
    "record, seed"
)
NODES = 10_000
NO_KEY = "is not a key, since YAML does not read it as a text; write a name, or quotes"
NO_SEED = "is not a whole number from 0 to 9223372036854775807"
NO_ATTRIBUTE = "is not an attribute or a resource type; no requirement can have it"
NEAR = "did you mean cpu?"
KINDS = "clock, cpu, disk, mem, net, os, other"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "policy:\n  fit:\n    kind: packng\n",
            "3: policy.fit.kind: 'packng' is not one of first_fit, packing; did you mean packing?",
        ),
        (
            "policy:\n  fit:\n    windw: 3\n",
            "3: policy.fit.windw: 'windw' is not one of deep, kind, weight, window; did you mean window?",
        ),
        (
            "engine_reservation:\n  nodes_max: -1\n",
            "2: engine_reservation.nodes_max: -1: it must be greater than or equal to 0 (default 4)",
        ),
        (
            "limits:\n\n  proposals_max: many\n",
            "3: limits.proposals_max: 'many': it must be a valid integer (default 4096)",
        ),
        ("polcy: {}\n", f"1: polcy: 'polcy' is not one of {KEYS}; did you mean policy?"),
        ("policy:\n  fot: {}\n", f"2: policy.fot: 'fot' is not one of {KEYS_OF_POLICY}; did you mean fit?"),
        ("policy: {gate: {kind: all, x: 1}}", "1: policy.gate.x: 'x' is not one of kind"),
        ("policy: packing\n", "1: policy: 'packing' is not a mapping; write `key: value` lines"),
        ("- a\n", "1: ['a'] is not a mapping; write `key: value` lines"),
        ("seed: -1\n", f"1: seed: -1 {NO_SEED}"),
        ("seed: true\n", f"1: seed: True {NO_SEED}"),
        ("1: 2\n", f"1: 1: {NO_KEY}"),
        ("engine_reservation:\n  yes: 1\n", f"2: engine_reservation.yes: {NO_KEY}"),
        (
            "constraints:\n  kinds: {gpu: cpus}\n",
            f"2: constraints.kinds: {{'gpu': 'cpus'}}: gpu: 'cpus' is not one of {KINDS}; {NEAR} (default {{}})",
        ),
        (
            'constraints: {kinds: {"gpu>": cpu}}\n',
            f"1: constraints.kinds: {{'gpu>': 'cpu'}}: 'gpu>' {NO_ATTRIBUTE} (default {{}})",
        ),
        ("seed: 1\nseed: 2\n", "2: seed: is there twice; keep one"),
        ("hold: &a {}\nlimits: *a\n", "2: limits: is an alias; write it out"),
        (
            "hold:\n  <<: {}\n",
            "2: hold: has the key '<<', which YAML replaces; write out what it stands for",
        ),
        ("seed: {=: 1}\n", "1: seed: has the key '=', which YAML replaces; write out what it stands for"),
        ("a: [1\n", "2: not YAML: expected ',' or ']', but got '<stream end>'"),
        ("\tseed: 1\n", "1: not YAML: found character '\\t' that cannot start any token"),
    ],
)
@pytest.mark.usefixtures("parts")
def test_an_error_says_line_field_and_what_is_allowed(text: str, said: str) -> None:
    assert problems(text) == [f"conf/t.yaml:{said}"]


def test_a_misspelt_key_of_a_tree_is_reported_with_the_keys_of_its_node() -> None:
    register_parts()
    known = "is not one of children, queue, weight; did you mean weight?"
    for node, path in (("{wieght: 2}", "a"), ("{children: {b: {wieght: 2}}}", "a.children.b")):
        text = f"policy:\n  share: {{kind: hdrf, tree: {{a: {node}}}}}\n"
        expected = f"conf/t.yaml:2: policy.share.tree.{path}.wieght: 'wieght' {known}"
        assert problems(text) == [expected]


@pytest.mark.usefixtures("parts")
def test_everything_wrong_is_reported_at_once() -> None:
    found = problems("seed: x\npolicy:\n  share: {kind: drf}\nin_flight: {timeout_ms: 1}\n")
    assert [line.split(": ")[1] for line in found] == ["seed", "policy.share.kind", "in_flight.timeout_ms"]


@pytest.mark.usefixtures("parts")
def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    absent = tmp_path / "absent.yaml"
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read: No such file"):
        read_settings(absent)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"# fine\nseed: \xff\n")
    with pytest.raises(ConfigError, match=r"binary\.yaml:2: not UTF-8"):
        read_settings(binary)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        *((text, "") for text in ("&a [*a]", "[" * 1000, "seed: " + "9" * 5000, "\x00", "? [a]\n: b", "a: 2001-99-99")),
        ("seed: !!bool x\n", "not YAML: 'x'"),
        ("seed: !!timestamp x\n", "not YAML: "),
        ("a: b\nseed: 1" + ":1" * 200, ":2: seed: is too long for a number; write a text in quotes"),
        ("a: b\n? 1" + ":1" * 200 + "\n: c\n", "a key that is not a text of at most 100 characters; write a name"),
        ("a: b\n" + "k" * 1001 + ": c\n", "a key that is not a text of at most 1000 characters; write a name"),
        (
            f"? [&a0 [x], {', '.join(f'&a{n + 1} [*a{n}, *a{n}]' for n in range(60))}]\n: c\n",
            "a key that is not a text",
        ),
        ("a: b\nseed: 1" + ":1" * 200 + ".5", ":2: seed: is too long for a number; write a text in quotes"),
        ("[" + "a," * NODES + "]", f":1: more than {NODES} keys and values; shorten it"),
        ("#" * (BYTES_MAX + 1), f"longer than {BYTES_MAX} bytes; shorten the file"),
    ],
    ids=range(15),
)
@pytest.mark.usefixtures("parts")
def test_what_would_take_long_or_end_with_a_stack_trace_is_refused(
    text: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yaml_nodes, "NODES_MAX", NODES)  # of as many as there may be each takes seconds
    (said,) = problems(text)
    assert said.startswith("conf/t.yaml:")
    assert line in said
    assert "\n" not in said
    file = written(tmp_path / "t.yaml", text)
    with pytest.raises(ConfigError) as caught:
        read_settings(file)
    assert line in caught.value.lines()[0]
    assert peek_source(file) is None


@pytest.mark.usefixtures("parts")
def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """Nothing waits for a pipe, and nothing reads a device to its end."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for file in (pipe, Path("/dev/zero")):
        with pytest.raises(ConfigError, match="cannot be read: not a regular file"):
            read_settings(file)
        assert peek_source(file) is None


def test_the_files_of_parts_are_looked_at_within_bounds(tmp_path: Path) -> None:
    """Neither a device, nor a long file, nor a path that is not a text, is read or written out."""
    (tmp_path / "long.py").write_bytes(b"#" * (3 * BYTES_MAX))
    os.mkfifo(tmp_path / "pipe")
    file = tmp_path / "t.yaml"
    file.write_text(
        "policy:\n  order: {kind: file, path: pipe, class: X}\n  share: {kind: file, path: long.py, class: X}\n"
        "  fit: {kind: file, path: [1, 2], class: X}\n"
    )
    source = present(peek_source(file))
    assert {path: len(content) for path, content in source.part_files.items()} == {
        str(tmp_path / "pipe"): 0,
        str(tmp_path / "long.py"): PART_BYTES_MAX + 1,
    }
    file.write_text("a: &a [x, x]\npolicy:\n  fit: {kind: file, path: *a, class: X}\n")
    assert peek_source(file) is None, "an alias may stand for a text of any length"
    file.write_text("policy:\n  fit: {<<: {kind: file, path: long.py, class: X}}\n")
    assert peek_source(file) is None, "a part's file would be one that is not seen"


@pytest.mark.usefixtures("parts")
def test_what_is_written_is_the_defaults() -> None:
    text = default_yaml()
    assert parse_settings("f", text) == default_settings()
    assert "    # How many.\n    window: 64\n" in text
    assert "    # or kind: first_fit\n" in text
    for part in PART_KINDS:
        assert f"  {part}:\n" in text


def test_the_file_in_conf_is_short_and_has_defaults_alone() -> None:
    text = (Path(__file__).parents[2] / "conf" / "treadle.yaml").read_text("utf-8")
    assert parse_settings("conf/treadle.yaml", text) == default_settings()
    assert len(text.splitlines()) == 25
    for section in text.split("\n\n"):
        assert section.startswith("# "), f"a comment says what this sets: {section}"
