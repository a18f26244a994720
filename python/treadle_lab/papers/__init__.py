"""The papers' experiments, run by the engine in the simulator or on real clusters, beside the papers' figures."""
