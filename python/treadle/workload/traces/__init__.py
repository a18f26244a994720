"""Readers of public formats of traces."""
