"""The planner's compiled inner loops: space-time, placement, following a plan, breeding, bounds."""
