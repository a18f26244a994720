"""What a sidecar of one of several engines follows of a treadle.yaml."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from treadle.config.errors import ConfigError
from treadle.config.reader import parse_settings
from treadle.config.settings import Settings, Source, default_settings
from treadle.live.policies import LivePolicies, own_settings
from treadle.live.policy_memory import state_folder
from treadle.policy.catalogue import register_parts
from treadle.replay.verify import recorded_settings
from treadle.wire.answer import Status

register_parts()

TWO = """
profiles: {store: /var/lib/treadle/profiles.db}
listener: {address: 127.0.0.1}
engines:
  service:
    select: {queues: [root.prod]}
    policy: {order: {kind: srpt}}
    fallback: batch
  batch: {copies: 2, policy: {order: {kind: fifo}}, claim: 0.5, precedence: 3}
"""


def settings(text: str = TWO) -> Settings:
    return parse_settings("t.yaml", text)


def test_without_engines_everything_is_as_it_was() -> None:
    one = default_settings()
    assert own_settings(one, "", "t.yaml") is one
    assert "engines" not in json.loads(Status("p").changed())


def test_the_first_engine_has_the_files_store() -> None:
    own = own_settings(settings(), "service", "t.yaml")
    assert "order=srpt" in own.policy.name()
    assert own.profiles.store == "/var/lib/treadle/profiles.db"
    assert own.engines == ()


def test_a_recording_without_a_name_is_the_first_engines() -> None:
    for engine, order in (("", "srpt"), ("service", "srpt"), ("batch-1", "fifo")):
        found = recorded_settings(Source("t.yaml", TWO, {}), engine, Path("recording"), trust_code=False)
        assert f"order={order}" in found.policy.name()


def test_another_engine_has_its_own_policy_and_store() -> None:
    own = own_settings(settings(), "batch-2", "t.yaml")
    assert "order=fifo" in own.policy.name()
    assert own.profiles.store == "/var/lib/treadle/profiles-batch-2.db"
    assert own.engines == ()
    assert own.seed == 2


def test_an_engine_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="has no engine 'batch'; there is: service, batch-1, batch-2"):
        own_settings(settings(), "batch", "t.yaml")


def test_from_one_engine_to_several_and_back_needs_a_restart() -> None:
    with pytest.raises(ConfigError, match="names several engines now, which `treadle sidecar restart` follows"):
        own_settings(settings(), "", "t.yaml")
    with pytest.raises(ConfigError, match="names no engines any more, which `treadle sidecar restart` follows"):
        own_settings(default_settings(), "service", "t.yaml")


def test_each_engine_knows_its_entry_of_the_roster() -> None:
    assert own_settings(default_settings(), "", "t.yaml").engine is None
    first, other = (own_settings(settings(), engine, "t.yaml").engine for engine in ("service", "batch-2"))
    assert first is not None
    assert other is not None
    assert (first.name, other.name, other.entry.claim) == ("service", "batch-2", 0.5)


def test_engines_remember_policies_in_folders_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    assert state_folder(file, {}) == tmp_path / ".t.yaml.state"
    assert state_folder(file, {}, "batch") == tmp_path / ".t.yaml.batch.state"


def test_a_sidecar_follows_its_entry(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(TWO, encoding="utf-8")
    assert "order=srpt" in LivePolicies(file, engine="service").start().policy.name()
    assert "order=fifo" in LivePolicies(file, engine="batch-1").start().policy.name()
    file.write_text("engines: {service: {}}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="has no engine 'batch-1'"):
        LivePolicies(file, engine="batch-1").read()
