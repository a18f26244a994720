"""The pictures of the docs, each drawn from a run whose seed is written in it."""
