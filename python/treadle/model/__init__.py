"""The engine's mirror of the cluster: columns, what is assumed, and how events change them."""
