"""A simulated cluster around the engine of the live system: ResourceManager, nodes, application masters, failures."""
