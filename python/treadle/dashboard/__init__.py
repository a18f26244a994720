"""Web pages about a cluster: the ResourceManager's state, its history, and current problems with their start.

It is a process of its own: no part of it runs in the ResourceManager or in a sidecar.
"""
