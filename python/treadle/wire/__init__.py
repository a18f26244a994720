"""The wire between the ResourceManager and the engine: frames in, proposal frames out (docs/wire-format.md)."""
