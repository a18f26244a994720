"""A testbed on one machine: a real ResourceManager, simulated nodes and application masters (Hadoop's SLS).

`script` defines the load, `cluster` the nodes, `play` runs it under a scheduler, `pace` checks whether the machine was
fast enough.
"""
