"""The simulated cluster's state and its events, compiled."""
