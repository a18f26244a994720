"""Putting Treadle on a ResourceManager's host, and taking it off again."""
