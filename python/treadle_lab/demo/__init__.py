"""The demonstration: unmodified MapReduce, Tez and Spark jobs on a real cluster that Python schedules."""
