"""What `memory` tells of a process."""

from __future__ import annotations

import subprocess
import sys

from treadle.process_limits import peak_memory_mb

ASK = "from treadle.process_limits import peak_memory_mb; print(peak_memory_mb())"


def test_a_process_does_not_count_what_its_parent_had() -> None:
    large = bytearray(b"x") * (400 << 20)
    told = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True).stdout
    assert len(large) / (1 << 20) <= peak_memory_mb()
    assert 1 < float(told) < 200
