"""Exact shares, by the papers' algorithms."""
