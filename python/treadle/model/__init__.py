"""The engine's mirror of the cluster: its tables, proposals in flight, and the events that change them."""
