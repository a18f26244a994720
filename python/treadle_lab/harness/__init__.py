"""Common parts of experiments on clusters and in the simulator."""
