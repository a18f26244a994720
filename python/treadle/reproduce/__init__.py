"""The papers' experiments, run by the engine in the simulator, beside the papers' figures."""
