"""Pseudonyms for the names in a recording: of users, applications, queues, tags, hosts and racks, the same everywhere.

A name is a text that a column of such names refers to. Each gets the next number of its kind, in the order in which
they come: ``user-1``, ``host-12``. A queue's path is replaced part by part, ``root`` stays. In constraints and labels
the words that are such names are replaced, in a treadle.yaml those of queues, users and tags. What decisions know by
its name, such as an application's type, stays although somebody may be called so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import yaml

from treadle import events
from treadle.config.errors import ConfigError
from treadle.config.settings import Source
from treadle.config.yaml_nodes import YamlDocument
from treadle.record.chunks import RecordingError
from treadle.record.ticks import SettingsText
from treadle.wire.frames import FRAME_HEADER, SECTION_HEADER, Frame, FrameDecoder
from treadle.wire.schema import SECTIONS

_COLUMNS: Final[tuple[tuple[type[Any], str, str], ...]] = (
    (events.Queues, "path_name", "queue"),
    (events.Nodes, "name_name", "host"),
    (events.Nodes, "rack_name", "rack"),
    (events.Users, "user_name", "user"),
    (events.Applications, "user_name", "user"),
    (events.Applications, "name_name", "job"),
    (events.Tags, "tag_name", "tag"),
    (events.AllocationTags, "tag_name", "tag"),
    (events.Localities, "name_name", "place"),
    (events.Blacklist, "name_name", "place"),
)
"""Columns of names, and what these are."""

_KEPT: Final = frozenset({"", "*", "/default-rack", "root", "default"})
"""Names that say nothing."""
_WORD: Final = re.compile(r"[\w.\-/@$+]+")
_GANG: Final = re.compile(r"treadle:gang=\d+")
_LABELS: Final = "shared-partitions"
"""The setting of the ResourceManager whose value is labels of nodes."""
_STRINGS: Final = SECTIONS["STRINGS"].kind
_DROPPED: Final = ("profiles", "listener", "kernels", "record")
"""Sections of a treadle.yaml that say nothing of decisions, and have paths and addresses."""


class Pseudonyms:
    """The pseudonyms of one recording, or of several in sequence."""

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        """Begin with pseudonyms that were given before."""
        self._of: dict[str, str] = dict(known or {})
        self._next: dict[str, int] = {}
        for pseudonym in self._of.values():
            kind, _, number = pseudonym.lstrip("/").rpartition("-")
            if number.isdigit():
                self._next[kind] = max(self._next.get(kind, 0), int(number))
        self._fixed: set[str] = set()
        self._decoder = FrameDecoder()

    @property
    def table(self) -> Mapping[str, str]:
        """What each name has become."""
        return self._of

    def learn(self, frame: bytes) -> None:
        """Note the names in a frame; all frames come in order, before any is `frame`d.

        Raises:
            WireError: it is malformed.
        """
        self.learn_from(self._decoder.decode(frame), self._decoder.texts)

    def learn_from(self, frame: Frame, texts: list[str]) -> None:
        """Note the names in a decoded frame; columns of names index ``texts``."""
        for event in frame.events:
            if isinstance(event, events.ResourceTypes):
                self._fixed.update((*event.names, *event.units))
            elif isinstance(event, events.Settings):
                self._fixed.update(event.values)
                self._fixed.update(value for key, value in event.values.items() if key != _LABELS)
            elif isinstance(event, events.Applications):
                self._fixed.update(texts[index] for index in np.unique(event.type_name).tolist())
            elif isinstance(event, events.Queues):
                self._fixed.update(texts[index] for index in np.unique(event.ordering_policy_name).tolist())
            for kind, column, what in _COLUMNS:
                if isinstance(event, kind):
                    for index in np.unique(getattr(event, column)).tolist():
                        self._note(texts[index], what)

    def _note(self, name: str, what: str) -> None:
        if name in _KEPT or name in self._of or _GANG.fullmatch(name):
            return
        if what == "queue":
            parts = name.split(".")
            for part in parts:
                if part not in _KEPT and part not in self._of:
                    self._of[part] = self._number("queue")
            self._of[name] = ".".join(self._of.get(part, part) for part in parts)
        else:
            self._of[name] = ("/" if what in {"rack", "place"} and name.startswith("/") else "") + self._number(what)

    def _number(self, what: str) -> str:
        self._next[what] = self._next.get(what, 0) + 1
        return f"{what}-{self._next[what]}"

    def text(self, text: str) -> str:
        """Return a text with its names replaced: all of it if it is a name, else word by word."""
        if text in _KEPT or text in self._fixed or _GANG.fullmatch(text):
            return text
        if text in self._of:
            return self._of[text]
        return _WORD.sub(lambda word: self._of.get(word[0], word[0]), text)

    def frame(self, frame: bytes) -> bytes:
        """Return a frame with other texts; everything else refers to texts by their index."""
        header = list(FRAME_HEADER.unpack_from(frame))
        offset = FRAME_HEADER.size
        parts = []
        for _ in range(header[9]):
            kind, reserved, rows, length = SECTION_HEADER.unpack_from(frame, offset)
            content = frame[offset + SECTION_HEADER.size : offset + SECTION_HEADER.size + length]
            offset += SECTION_HEADER.size + length
            if kind == _STRINGS:
                content = self._strings(content, rows)
            parts.append(SECTION_HEADER.pack(kind, reserved, rows, len(content)) + content)
        body = b"".join(parts)
        header[10] = FRAME_HEADER.size + len(body)
        return FRAME_HEADER.pack(*header) + body

    def _strings(self, content: bytes, rows: int) -> bytes:
        sizes = np.frombuffer(content, "<i4", rows).tolist()
        at, texts = 4 * rows, []
        for size in sizes:
            texts.append(self.text(content[at : at + size].decode()).encode())
            at += size
        return np.array([len(text) for text in texts], "<i4").tobytes() + b"".join(texts)

    def settings(self, settings: SettingsText) -> SettingsText:
        """Return the text of settings with other names; without comments, paths and addresses.

        Raises:
            RecordingError: the policy has parts from files, which may have any names in them, or the text is wrong.
        """
        source = settings.source
        if source is None:
            return settings
        if source.part_files:
            raise RecordingError(
                "the policy has parts from files, whose code may have any names in it: such a recording cannot be "
                "anonymised"
            )
        try:
            kept = self._section(YamlDocument(source.file, source.text).value or {})
            for name, entry in (kept.get("engines") or {}).items():
                kept["engines"][name] = self._section(entry or {})
        except (ConfigError, AttributeError) as error:
            raise RecordingError(f"settings in the recording cannot be read: {error}") from error
        text = yaml.safe_dump(kept, sort_keys=False)
        return SettingsText(Source("treadle.yaml", text, {}), settings.name)

    def _section(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return a treadle.yaml, or an entry of its engines, with other names."""
        kept = {key: value for key, value in given.items() if key not in _DROPPED}
        if isinstance(kept.get("select"), dict):
            named = {"queues", "tags", "users"}
            kept["select"] = {
                key: [self._name(name, key.removesuffix("s")) for name in value] if key in named else value
                for key, value in kept["select"].items()
            }
        share = (kept.get("policy") or {}).get("share")
        if isinstance(share, dict) and isinstance(share.get("tree"), dict):
            kept["policy"] = {**kept["policy"], "share": {**share, "tree": self._tree(share["tree"])}}
        return kept

    def _tree(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        """Return a tree to share by with other names: of queues, and of its own nodes."""
        found = {}
        for name, inside in tree.items():
            own, below = self._name(str(name), "queue"), dict(inside or {})
            if "queue" in below:
                below["queue"] = self._name(str(below["queue"]), "queue")
            if isinstance(below.get("children"), dict):
                below["children"] = self._tree(below["children"])
            found[own] = below
        return found

    def _name(self, name: str, what: str) -> str:
        """Return the pseudonym of a name in settings, which need not have been in a frame."""
        self._note(name, what)
        return self._of.get(name, name)
