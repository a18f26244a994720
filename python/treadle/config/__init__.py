"""treadle.yaml: what may stand in it, how it is read, and what is said when it is wrong."""
