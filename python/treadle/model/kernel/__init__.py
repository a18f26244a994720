"""Compiled loops over the model's columns."""
