"""`treadle reproduce`: run a paper's experiment."""
