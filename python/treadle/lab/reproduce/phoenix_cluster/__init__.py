"""`treadle reproduce phoenix-cluster`: asks that only some nodes can serve, on real ResourceManagers."""
