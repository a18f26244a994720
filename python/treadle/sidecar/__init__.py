"""Several engines behind one sidecar: the applications and events of each, and the merging of their answers."""
