"""Runs of jobs from what frameworks have written down: one file a history's form."""
