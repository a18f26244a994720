"""What all slices of the campaign have counted: `tests/campaign/counts.json`, which the repository keeps."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tests.campaign.slices import Slice

ROOT = Path(__file__).resolve().parents[2]
COUNTS = Path(__file__).with_name("counts.json")
FIGURES = ROOT / "build" / "campaign.json"
SAMPLES_MAX = 5000
"""How many of the values measured are kept, the last ones."""

Entry = dict[str, Any]


class Ledger:
    """The counts of all parts so far."""

    def __init__(self, file: Path = COUNTS) -> None:
        self._file = file
        self.parts: dict[str, Entry] = json.loads(file.read_text()) if file.is_file() else {}

    def entry(self, part: str) -> Entry:
        """Return what is known of a part: slices, seconds, counts, samples, findings, state."""
        empty: Entry = {"slices": 0, "seconds": 0, "counts": {}, "samples": {}, "findings": [], "state": {}}
        return self.parts.setdefault(part, empty)

    def next_seed(self, part: str) -> int:
        """Return the seed of a part's next slice."""
        return int(self.entry(part)["slices"]) + 1

    def add(self, done: Slice) -> None:
        """Add a slice, finished or broken off, and write the file."""
        entry = self.entry(done.part)
        entry["slices"] += 1
        entry["seconds"] += round(done.elapsed_s)
        entry["counts"] = dict(sorted((Counter(entry["counts"]) + done.counts).items()))
        for name, values in done.samples.items():
            entry["samples"][name] = [*entry["samples"].get(name, []), *values][-SAMPLES_MAX:]
        entry["findings"] += done.findings
        entry["state"] = done.state
        self.parts = dict(sorted(self.parts.items()))
        _write(self._file, self.parts)


def write_figures(done: list[Slice], file: Path = FIGURES) -> None:
    """Write what the slices of one run counted."""
    file.parent.mkdir(parents=True, exist_ok=True)
    _write(
        file,
        {
            each.part: {
                "seed": each.seed,
                "seconds": round(each.elapsed_s),
                "options": dict(each.options),
                "counts": dict(sorted(each.counts.items())),
                "samples": each.samples,
                "findings": each.findings,
            }
            for each in done
        },
    )


def _write(file: Path, content: dict[str, Any]) -> None:
    new = file.with_suffix(".new")
    new.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
    new.replace(file)
