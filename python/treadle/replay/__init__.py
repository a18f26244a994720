"""Replays of recordings: with the same policy to the byte, or with others on a model of the cluster."""
