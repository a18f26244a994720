"""The simulated cluster's state and all that happens in it, compiled."""
