"""Agreement of the simulator with a real cluster."""
