"""`treadle lab`: experiments on policies, in a checkout."""
