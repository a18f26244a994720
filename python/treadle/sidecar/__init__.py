"""Several engines behind one sidecar: which serves what, what each hears, and what their answers become."""
