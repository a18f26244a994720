"""What Treadle does, written down, so that a change that should change nothing can be held against it."""
