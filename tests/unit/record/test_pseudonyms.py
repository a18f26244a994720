"""Names in recordings are replaced by pseudonyms, the same in frames and in the text of the policy."""

from __future__ import annotations

import numpy as np
import pytest
import yaml
from tests.engine.fake_rm import FakeRM

from treadle import events
from treadle.config.settings import Source
from treadle.events import Event
from treadle.record.chunks import RecordingError
from treadle.record.pseudonyms import Pseudonyms
from treadle.record.ticks import SettingsText
from treadle.wire.frames import FrameDecoder, FrameEncoder, FrameHeader
from treadle.wire.schema import FrameFlag


def frame(rm: FakeRM, *more: Event) -> bytes:
    told = [each for each in rm.frame() if not isinstance(each, events.Snapshot)]
    header = FrameHeader(int(FrameFlag.SNAPSHOT), 1, 1, 1000, 0, 8, 2)
    texts = next(each for each in told if isinstance(each, events.Names))
    types = next(each for each in told if isinstance(each, events.ResourceTypes))
    settings = next(each for each in told if isinstance(each, events.Settings)).values
    known = (*texts.texts, *types.names, *dict.fromkeys(types.units), *settings, *settings.values())
    known = tuple(dict.fromkeys(known))
    told[told.index(texts)] = events.Names((*known, "treadle:gang=4", "secret-tag", "notin,secret-tag,node1"))
    count = len(known)
    column = np.zeros(3, np.int32)
    tags = events.Tags(column, np.arange(count, count + 3, dtype=np.int32))
    return FrameEncoder().encode(header, [events.Snapshot(1), *told, tags, *more])


def cluster() -> FakeRM:
    rm = FakeRM()
    for at in range(3):
        rm.node(f"node{at}.corp.example", (8192, 8), rack="/rack-secret" if at else "/default-rack")
    root = rm.queue(-1, (8192, 8))
    rm.queue(root, (8192, 8), order="fair")
    rm.application(1, user="alice", name="payroll", kind="MAPREDUCE")
    rm.application(1, user="fair", name="node1.corp.example", kind="TEZ")
    rm.ask(0, 0, 2, (1024, 1), places={"node1.corp.example": (1, True), "/rack-secret": (1, True)})
    return rm


def test_names_are_replaced_and_what_decisions_know_stays() -> None:
    content = frame(cluster())
    pseudonyms = Pseudonyms()
    pseudonyms.learn(content)
    renamed = pseudonyms.frame(content)
    before, after = FrameDecoder(), FrameDecoder()
    first, second = before.decode(content), after.decode(renamed)
    replaced = dict(zip(before.texts, after.texts, strict=True))
    assert len(set(after.texts)) == len(after.texts)
    assert {text for text in replaced if replaced[text] == text} >= {"", "MAPREDUCE", "TEZ", "memory-mb", "fair"}
    assert replaced["treadle:gang=4"] == "treadle:gang=4"
    assert replaced["/default-rack"] == "/default-rack"
    assert replaced["/rack-secret"].startswith("/rack-")
    assert replaced["node1.corp.example"].startswith("host-")
    assert replaced["alice"].startswith("user-")
    assert replaced["payroll"] == "job-1"
    for word in (b"corp", b"secret", b"alice", b"payroll"):
        assert word not in renamed
    assert [type(each) for each in first.events] == [type(each) for each in second.events]
    assert first.header == second.header


def test_a_path_is_replaced_part_by_part_and_the_same_every_time() -> None:
    pseudonyms = Pseudonyms()
    for name, what in (("root.sales.emea", "queue"), ("root.sales", "queue"), ("emea", "tag")):
        pseudonyms._note(name, what)
    assert pseudonyms.table["root.sales.emea"] == "root.queue-1.queue-2"
    assert pseudonyms.table["root.sales"] == "root.queue-1"
    assert pseudonyms.table["emea"] == "queue-2"
    again = Pseudonyms(pseudonyms.table)
    again._note("root.sales.apac", "queue")
    assert again.table["root.sales.apac"] == "root.queue-1.queue-3"


POLICY = """
# payroll runs at night
policy:
  share:
    kind: hdrf
    tree:
      finance: {weight: 3, children: {root.payroll: {}, own: {queue: root.books, weight: 2}}}
  order: {kind: fair}
engines:
  a: {select: {queues: [root.payroll], users: [alice], tags: [nightly], types: [SPARK]}, profiles: {store: /x/y.db}}
  rest: {}
profiles: {store: /secret/path.db}
record: {folder: /secret/rec}
seed: 5
"""


def test_the_text_of_a_policy_has_the_same_names_and_no_paths() -> None:
    pseudonyms = Pseudonyms({"root.payroll": "root.queue-7", "payroll": "queue-7"})
    found = pseudonyms.settings(SettingsText(Source("/etc/t.yaml", POLICY, {}), "name"))
    assert found.source is not None
    document = yaml.safe_load(found.source.text)
    assert document == {
        "policy": {
            "share": {
                "kind": "hdrf",
                "tree": {
                    "queue-8": {
                        "weight": 3,
                        "children": {"root.queue-7": {}, "queue-9": {"queue": "root.queue-10", "weight": 2}},
                    }
                },
            },
            "order": {"kind": "fair"},
        },
        "engines": {
            "a": {"select": {"queues": ["root.queue-7"], "users": ["user-1"], "tags": ["tag-1"], "types": ["SPARK"]}},
            "rest": {},
        },
        "seed": 5,
    }
    assert "night" not in found.source.text
    assert found.source.file == "treadle.yaml"


def test_code_cannot_be_anonymised() -> None:
    with pytest.raises(RecordingError, match="parts from files"):
        Pseudonyms().settings(SettingsText(Source("t.yaml", "{}", {"/p.py": b"secret"}), ""))
