"""The sidecar: the engine beside a ResourceManager, its process, its sessions and its event sources beside frames."""
