"""Plans for application masters: a listener that serves plans and takes reports (docs/plan-listener.md)."""
