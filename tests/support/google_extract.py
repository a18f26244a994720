"""A small made-up extract of Google's trace of 2011."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from treadle.lab.reproduce.slearn.workload import WINDOW_MS
from treadle.workload.traces.google import JOBS_HEADER, TASKS_HEADER


def write_extract(folder: Path) -> Path:
    """Write tables of the extract's form: jobs of 1 to 60 tasks, durations with a long tail. Return the folder."""
    generator = np.random.default_rng(7)
    tasks_rows, jobs_rows = [TASKS_HEADER], [JOBS_HEADER]
    for number, submit_s in enumerate(range(WINDOW_MS[0] // 1000, WINDOW_MS[1] // 1000, 400)):
        tasks = int(generator.choice([1, 2, 5, 20, 60], p=[0.2, 0.2, 0.3, 0.2, 0.1]))
        mean_s = 10 ** generator.uniform(0.5, 3.5)
        durations = " ".join(f"{mean_s * value:.1f}" for value in generator.uniform(0.9, 1.1, tasks))
        user, application, name = (int(generator.integers(count)) for count in (3, 5, 8))
        tasks_rows.append(
            f"{number},{submit_s}.0,{user},{application},1,0,0.05,0.01,0,0,{tasks},{tasks},0,1,{durations}"
        )
        jobs_rows.append(f"{number},{submit_s}.0,{submit_s}.0,{submit_s + 500}.0,finish,{user},1,{name},{application}")
    (folder / "tasks_25h.csv").write_text("\n".join(tasks_rows))
    (folder / "jobs_29d.csv").write_text("\n".join(jobs_rows))
    return folder
