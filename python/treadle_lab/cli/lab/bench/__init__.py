"""`treadle lab bench`: measure the speed of scheduling, engine and simulator."""
