"""The sidecar: the engine of a ResourceManager, its process, its sessions and its sources of events outside frames."""
