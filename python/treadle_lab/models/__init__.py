"""The papers' own simulators."""
