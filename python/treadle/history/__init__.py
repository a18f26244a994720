"""Recurring jobs: the history of their runs, and predictions from it."""
