"""Jobs as directed acyclic graphs of stages: the one model that readers, planner and simulator share."""
