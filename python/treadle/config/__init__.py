"""treadle.yaml: its settings, how it is read, and its error messages."""
