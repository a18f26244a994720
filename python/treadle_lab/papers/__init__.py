"""The papers' experiments with the engine in the simulator or on real clusters, compared with the papers' figures."""
