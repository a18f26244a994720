"""`treadle lab reproduce`: run a paper's experiment."""
