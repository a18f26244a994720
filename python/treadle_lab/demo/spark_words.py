"""The demo's PySpark job, submitted as it is: counts words and writes them as `word<TAB>count`."""

from __future__ import annotations

import sys
from operator import add

from pyspark.sql import SparkSession


def main(source: str, target: str) -> None:
    """Count the words in the files of one folder into another."""
    spark = SparkSession.builder.getOrCreate()
    counts = spark.sparkContext.textFile(source).flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(add, 4)
    counts.map(lambda pair: f"{pair[0]}\t{pair[1]}").saveAsTextFile(target)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
