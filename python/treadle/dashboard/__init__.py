"""Web pages about a cluster: what its ResourceManager reports, how it came there, and since when something is wrong.

A process of its own: nothing of it runs in the ResourceManager or in a sidecar.
"""
