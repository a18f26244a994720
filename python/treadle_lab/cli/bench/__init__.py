"""`treadle bench`: how fast a simulated cluster is scheduled, the engine decides, and the simulator runs."""
