"""Whether Treadle is as fast as it was: pairs of this checkout and a recorded commit, ratios only."""
