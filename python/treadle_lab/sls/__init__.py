"""A testbed on one machine: a real ResourceManager, simulated nodes and application masters (Hadoop's SLS).

`script` is what is played, `cluster` on what, `play` plays it under a scheduler, `pace` says whether the machine
kept up.
"""
