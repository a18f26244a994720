"""`treadle reproduce`: run a paper's experiment, or jobs on a cluster and in the simulator, and compare."""
