"""Where the fuzzer begins: small files that the repository has anyway."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
HISTORIES = ROOT / "tests" / "data" / "histories"

SEEDS: dict[str, list[Path]] = {
    "frame": [GOLDEN / "frame-snapshot.bin"],
    "answer": [GOLDEN / "proposals.bin"],
    "plan": [GOLDEN / "plan-request.bin", GOLDEN / "stage-report.bin"],
    "settings": [ROOT / "conf" / "treadle.yaml", *sorted((ROOT / "conf" / "policies").glob("*.yaml"))],
    "history": sorted(file for file in HISTORIES.rglob("*") if file.is_file() and file.stat().st_size < 40_000),
    "reply": [GOLDEN / "proposals.bin"],
}
"""For each target the files of its first corpus."""
