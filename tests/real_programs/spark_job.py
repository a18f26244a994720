"""The job of part spark: groups numbers in tasks that wait until a file is there."""

from __future__ import annotations

import sys
import time
from operator import add
from pathlib import Path

NUMBERS = 64
TASKS = 8
GROUPS = 5


def main(gate: str, output: str) -> None:
    """Sum the numbers of each group; the first stage's tasks wait for the file `gate`."""
    from pyspark.sql import SparkSession  # the part imports this module for its constants, without Spark

    def wait(number: int) -> tuple[int, int]:
        while not Path(gate).exists():
            time.sleep(0.2)
        return number % GROUPS, number

    context = SparkSession.builder.getOrCreate().sparkContext
    sums = context.parallelize(range(NUMBERS), TASKS).map(wait).reduceByKey(add, 2)
    sums.map(lambda pair: f"{pair[0]} {pair[1]}").saveAsTextFile(f"file://{output}")
    context.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
