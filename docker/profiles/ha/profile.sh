# Two ResourceManagers, each with a managed sidecar while it is active, on ZooKeeper.
services=(namenode zookeeper rm-1-host rm-1 rm-2-host rm-2 history worker-1 worker-2)
tests=(tests/docker/test_ha.py)
prepare() { own_image; }
