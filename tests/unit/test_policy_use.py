"""`treadle policy use` changes the policy of a treadle.yaml and nothing else, and what it replaces is not lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.support.cli import Cli
from tests.support.files import written

from treadle.admin import policy_use
from treadle.cli.main import run
from treadle.config.reader import parse_settings
from treadle.config.text import History, default_yaml, section_values, with_sections
from treadle.errors import UserError
from treadle.policy.catalogue import register_parts
from treadle.shipped import ready_made

register_parts()
WHOLE = default_yaml()
HDRF = ready_made()["hdrf"].read_text()

BY_HAND = """\
# Ours. Ask Ann before you change it.
limits: {part_timeout_ms: 800}  # a slow disk

# why: the batch queue starved
policy:
  # was hdrf before
  share: {kind: capacity}

  # a note on the policy
# Where jobs are remembered.
history:
  store: /var/lib/treadle/profiles.db
seed: 7
"""


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return written(tmp_path / "treadle.yaml", BY_HAND)


def use(target: Path, policy: str, *more: str) -> list[str]:
    return ["policy", "use", policy, "--config", str(target), "--no-refresh", *more]


def body(file: Path) -> str:
    """Return a file without the line that says where its policy is from."""
    first, _, rest = file.read_text().partition("\n")
    assert first.startswith("# Taken over by `treadle policy ")
    return rest


def test_all_but_the_policy_stays_as_it_was_written(target: Path) -> None:
    assert run(use(target, "hdrf")) == 0
    lines = HDRF.splitlines(keepends=True)
    block = "".join(lines[lines.index("policy:\n") :])
    before, _, rest = BY_HAND.partition("policy:\n")
    assert body(target) == before + block + rest[rest.index("# Where jobs") :]
    assert run(use(target, "slearn-history")) == 0
    settings = section_values(target.read_text())
    assert settings["history"] == {"store": "/var/lib/treadle/profiles.db"}
    assert settings["policy"] == section_values(ready_made()["slearn-history"].read_text())["policy"]


def test_a_ready_made_policy_is_not_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    file = written(tmp_path / "hdrf.yaml", HDRF)
    monkeypatch.setattr(policy_use, "ready_made", lambda: {"hdrf": file})
    link = tmp_path / "treadle.yaml"
    link.symlink_to(file)

    said = cli(use(link, "drf"), 2).err
    assert f"{file} is the ready-made policy hdrf" in said
    assert "copy it" in said
    assert file.read_text() == HDRF
    assert not History(file).versions()


@pytest.mark.parametrize("of", ["file", "folder"])
def test_a_policy_that_others_may_write_is_not_taken_over(of: str, target: Path, tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "theirs" / "p.yaml"
    file.parent.mkdir()
    file.write_text("policy: {order: {kind: fifo}}\n")
    open_to_all = file if of == "file" else file.parent
    before, mode = target.read_text(), open_to_all.stat().st_mode
    open_to_all.chmod(0o777)
    error = cli(use(target, str(file)), 2).err
    assert f"{open_to_all} may be written by everybody; take that right away with chmod go-w" in error
    assert target.read_text() == before
    open_to_all.chmod(mode)
    assert run(use(target, str(file))) == 0


@pytest.mark.parametrize("name", sorted(ready_made()))
def test_every_policy_goes_into_the_file_with_all_settings_and_out_again(name: str) -> None:
    other = ready_made()[name].read_text()
    changed = with_sections("t.yaml", WHOLE, other, ["policy"])
    assert section_values(changed) == section_values(WHOLE) | {"policy": section_values(other)["policy"]}
    assert with_sections("t.yaml", changed, WHOLE, ["policy"]) == WHOLE
    comments = [line for line in with_sections("t.yaml", WHOLE, "", ["policy"]).splitlines() if line.startswith("#")]
    assert [line for line in changed.splitlines() if line.startswith("#")] == comments


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        "seed: 3",
        "seed: 3\npolicy:\n",
        "policy: {share: {kind: none}}  # short\nseed: 3\n",
        "policy: {share: {kind: none},\n  order: {kind: fifo}}\nseed: 3\n",
        "---\nseed: 3\n",
        "seed: 3\r\npolicy:\r\n  share:\r\n    kind: none\r\nengine_reservation: {nodes_max: 1}\r\n",
        "policy:\n  share:\n    kind: none\n    # or kind: fair\nengine_reservation:\n  nodes_max: 1\n",
    ],
)
def test_a_policy_goes_into_any_way_to_write_a_file(text: str) -> None:
    changed = with_sections("t.yaml", text, HDRF, ["policy"])
    assert section_values(changed) == section_values(text) | {"policy": section_values(HDRF)["policy"]}
    assert parse_settings("t.yaml", changed).policy.share.kind.name == "hdrf"
    kept = [line for line in with_sections("t.yaml", text, "", ["policy"]).splitlines() if line.strip()]
    assert [line for line in changed.splitlines() if line in kept] == kept


def test_a_file_in_braces_is_refused_and_a_policy_in_braces_is_taken() -> None:
    with pytest.raises(UserError, match=r"t\.yaml:1: the sections .* not in braces"):
        with_sections("t.yaml", "{seed: 3}", HDRF, ["policy"])
    changed = with_sections("t.yaml", "seed: 3\n", "{policy: {share: {kind: none}}}", ["policy"])
    assert yaml.safe_load(changed) == {"seed": 3, "policy": {"share": {"kind": "none"}}}


@pytest.mark.parametrize("text", ["null", "# nothing\nnull\n", "~\n"])
def test_a_file_with_null_alone_is_an_empty_one(text: str, tmp_path: Path, cli: Cli) -> None:
    assert section_values(with_sections("t.yaml", text, HDRF, ["policy"])) == section_values(HDRF)
    file = written(tmp_path / "t.yaml", text)
    assert run(["policy", "check", str(file)]) == 0
    file.write_text("{policy: {share: {kind: hdrf}}}\n")
    assert f"{file}:1: the sections of a treadle.yaml must be" in cli(["policy", "check", str(file)], 2).err


def test_a_policy_of_defaults_alone_takes_the_other_out(target: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# all defaults\n")
    assert run(use(target, str(tmp_path / "empty.yaml"))) == 0
    assert "policy" not in section_values(target.read_text())


ROSTER = """\
policy:
  share: {kind: capacity}
engines:
  prod:
    select: {queues: [root.prod]}
    policy: {order: {kind: fifo}}
  rest: {}
"""


def test_with_several_engines_the_first_ones_policy_is_awaited(target: Path, cli: Cli) -> None:
    target.write_text(ROSTER)
    said = cli(use(target, "hdrf")).out
    assert section_values(target.read_text())["policy"]["share"]["kind"] == "hdrf"
    assert "order=fifo" in said
    assert "share=hdrf" not in said


def test_a_policy_that_no_engine_would_follow_is_refused(target: Path, cli: Cli) -> None:
    whole = ROSTER.replace("rest: {}", "rest: {policy: {share: {kind: drf}}}")
    target.write_text(whole)
    assert "engines.prod.policy, engines.rest.policy" in cli(use(target, "hdrf"), 2).err
    assert target.read_text() == whole


OWN_ROSTER = ROSTER.replace("rest: {}", "rest: {policy: {share: {kind: drf}}}")


def test_a_new_treadle_yaml_may_be_a_roster_of_policies(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "roster.yaml").write_text(OWN_ROSTER)
    assert "order=fifo" in cli(use(tmp_path / "new.yaml", str(tmp_path / "roster.yaml"))).out
    assert section_values((tmp_path / "new.yaml").read_text()) == section_values(OWN_ROSTER)


def test_a_roster_is_taken_over_where_the_file_has_one(target: Path, tmp_path: Path, cli: Cli) -> None:
    target.write_text(ROSTER)
    printed = cli(use(target, "hdrf", "--also", "engines")).out
    assert "order=fifo" in printed, "hdrf.yaml has no engines: those of the target stay"
    (tmp_path / "roster.yaml").write_text(OWN_ROSTER.replace("order: {kind: fifo}", "order: {kind: fair}"))
    assert "order=fair" in cli(use(target, str(tmp_path / "roster.yaml"), "--also", "engines")).out


ONE = "{one: {select: {users: [ann]}, policy: %s}, rest: {}}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seed: 1\nengines: [prod]\n", ":2: engines: ['prod'] is not a mapping"),
        ("seed: 1\nengines: {prod: root.prod}\n", ":2: engines.prod: 'root.prod' is not a mapping"),
        (f"seed: 1\nengines: {ONE % 'hdrf'}", "engines.one.policy: 'hdrf' is not a mapping"),
        (f"seed: 1\nengines: {ONE % '{share: 3}'}", ":2: engines.one.policy.share: 3 "),
        ("seed: -1\n", ":1: seed: -1 is not"),
        ("seed: [\n", "not YAML"),
        ("seed: 1\nseed: 2\n", "is there twice"),
    ],
)
def test_a_treadle_yaml_that_is_wrong_is_refused_with_its_line(target: Path, cli: Cli, text: str, said: str) -> None:
    target.write_text(text)
    error = cli(use(target, "fifo"), 2).err
    assert error.startswith(str(target))
    assert said in error
    assert target.read_text() == text


def test_what_a_file_sets_besides_its_policy_is_refused_unless_it_is_asked_for(target: Path, cli: Cli) -> None:
    said = cli(use(target, "graphene"), 2).err
    assert f"plans.schedules is 200 here and 0 in {target}" in said
    assert "--also SECTION" in said
    assert target.read_text() == BY_HAND
    assert run(use(target, "graphene", "--also", "plans")) == 0
    assert section_values(target.read_text())["plans"] == {"schedules": 200}
    assert "did you mean plans?" in cli(use(target, "hdrf", "--also", "plan"), 2).err


def test_a_policy_that_needs_a_store_is_refused_without_one(target: Path, tmp_path: Path, cli: Cli) -> None:
    target.write_text("seed: 1\n")
    said = cli(use(target, "slearn-history"), 2).err
    assert "policy.gate (pilots) uses the history of earlier runs: set history.store" in said
    assert "policy.estimate (pilots)" in said
    assert target.read_text() == "seed: 1\n"
    assert run(use(tmp_path / "new.yaml", "slearn-history")) == 2
    assert not (tmp_path / "new.yaml").exists()
    cli(use(target, "slearn"))
    (tmp_path / "told.yaml").write_text("policy: {estimate: {kind: hints}}\n")
    assert "set history.store or listener.address" in cli(use(target, str(tmp_path / "told.yaml")), 2).err


def test_what_was_written_by_hand_comes_back(target: Path, cli: Cli) -> None:
    target.chmod(0o640)
    for policy in ("hdrf", "slearn", "fifo"):
        cli(use(target, policy))
    rows = json.loads(cli(["policy", "history", "--config", str(target), "--output=json"]).out)
    assert [row["number"] for row in rows] == [1, 2, 3]
    assert rows[0]["text"] == BY_HAND
    assert rows[0]["policy"] == "share=capacity"
    assert rows[0]["replaced_by"] == str(ready_made()["hdrf"])
    assert run(["policy", "rollback", "1", "--config", str(target), "--no-refresh"]) == 0
    assert body(target) == BY_HAND
    assert target.stat().st_mode & 0o777 == 0o640
    assert run(["policy", "rollback", "--config", str(target), "--no-refresh"]) == 0
    assert section_values(target.read_text())["policy"]["order"] == {"kind": "fifo"}, "the second undoes the first"
    assert "kept are 1, 2, 3, 4, 5" in cli(["policy", "rollback", "9", "--config", str(target), "--no-refresh"], 2).err
    assert "share=capacity" in cli(["policy", "history", "--config", str(target)]).out


def test_a_rollback_without_a_history_is_refused(target: Path, cli: Cli) -> None:
    assert "nothing is kept there" in cli(["policy", "rollback", "--config", str(target), "--no-refresh"], 2).err


def test_a_version_that_is_wrong_by_now_is_not_put_back(target: Path, cli: Cli) -> None:
    assert run(use(target, "hdrf")) == 0
    now = target.read_text()
    version = History(target).version(None)
    (History(target).folder / "000001.json").write_text(
        json.dumps({"number": 1, "until": "", "policy": "", "replaced_by": "", "text": version.text + "gone: 1\n"})
    )
    assert "gone: 'gone' is not one of" in cli(["policy", "rollback", "--config", str(target), "--no-refresh"], 2).err
    assert target.read_text() == now


def test_the_history_is_bounded_and_numbers_are_not_used_again(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.config.text.VERSIONS_MAX", 3)
    for number in range(5):
        target.write_text(f"seed: {number}\n")
        assert run(use(target, "hdrf")) == 0
    found = History(target).versions()
    assert [(version.number, version.text) for version in found] == [
        (3, "seed: 2\n"),
        (4, "seed: 3\n"),
        (5, "seed: 4\n"),
    ]
    (History(target).folder / "000004.json").write_text("{")
    assert [version.number for version in History(target).versions()] == [3, 5]


def test_a_version_that_ignores_priorities_is_read() -> None:
    text = "policy: {order: {kind: srpt}, ignore_priority: true}\n"
    assert policy_use._policy_in(text) == "order=srpt ignore_priority"
