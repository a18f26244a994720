"""Recurring jobs: what is remembered of their runs, and what that says of the next one."""
