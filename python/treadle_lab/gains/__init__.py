"""`treadle lab gains`: ready-made policies and YARN's orderings on the same workloads, paired by draw."""
