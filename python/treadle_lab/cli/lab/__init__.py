"""`treadle lab` (In a checkout 3): run the experiments of a checkout."""
