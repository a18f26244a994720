"""Estimators of how long a job will run, and how well they do."""
