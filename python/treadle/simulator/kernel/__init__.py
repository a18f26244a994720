"""The simulator's compiled code: the event kernel, and what every event does."""
