"""What experiments on clusters and in the simulator share."""
