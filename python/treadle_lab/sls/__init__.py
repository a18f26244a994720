"""A testbed on one machine: a real ResourceManager, simulated nodes and application masters (Hadoop's SLS)."""
