"""Exact arithmetic on a busy machine: no limit on the time of an example, which must not decide a test."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("fairness", deadline=None)
settings.load_profile("fairness")
