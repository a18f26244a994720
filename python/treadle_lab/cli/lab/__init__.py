"""`treadle lab`: run the experiments of a checkout."""
