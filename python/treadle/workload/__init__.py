"""Workloads: jobs that arrive over time, read from public traces' formats or drawn by seeded generators."""
