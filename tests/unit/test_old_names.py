"""No page, example, configuration or test has a setting, metric, key or reason under a name that it no longer has."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACES = ("docs", "conf", "tests", "README.md")

SETTINGS = (
    r"settled_part|history_part|claims_part|nodes_share|cluster_share|ratio_percent|masters_starting"
    r"|master_timeout_ms|starvation_ms|wrong_factor|kind: workers|size: (whole|attained)\b"
    r"|\b(hold\.(nodes_max|nodes_fraction|headroom)|assumed\.timeout_ms|profiles\.(store|staging|size_mb|user_mb))\b"
    r"|(^|[\"'`{]|\\n)(hold|assumed|profiles):( \{|$|`)"
)
FIGURES = (
    r"treadle_((rm_heard|pages_read|condition_since)_seconds|engine_lives|escapes|native_placements|queue_owed)"
    r"|PlacedNatively|placed_natively|share_error|stock_only|\bturned_down\b|[\"'`]Escapes[\"'`]"
    r"|\"beside\": \["
)
REASONS = (
    r"\b(held_for_another|(nodes_)?kept_free|would_do|no_such_place|no_node_meets|guaranteed_to_others)\b"
    r"|Reason\.(BEHIND|ELSEWHERE)|Why\.TURN\b|`behind`|starved: queue"
)
OLD = re.compile(f"{SETTINGS}|{FIGURES}|{REASONS}", re.MULTILINE)


def test_no_old_name_is_used() -> None:
    listed = subprocess.run(["git", "ls-files", "-z", *PLACES], cwd=ROOT, capture_output=True, text=True, check=True)
    files = {ROOT / name for name in listed.stdout.split("\0") if name} - {Path(__file__)}
    found = []
    for file in sorted(files):
        text = file.read_bytes().decode("utf-8", "replace") if file.exists() else ""
        found += [f"{file.relative_to(ROOT)}: {match[0]}" for match in OLD.finditer(text)]
    assert len(files) > 100
    assert not found
