"""H-DRF's tests on real ResourceManagers."""
