# HDFS, one ResourceManager with an external sidecar, three workers: docker/compose.yaml as users have it.
tests=(tests/docker/test_jobs.py tests/docker/test_faults.py)
