"""Recordings decided again: by the same policy to the byte, or by others on a model of the cluster."""
