"""The sidecar: the engine beside a ResourceManager, its process, its sessions and what it is told besides frames."""
