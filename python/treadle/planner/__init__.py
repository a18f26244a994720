"""Plans the order of one DAG's tasks: Graphene's offline part, its baselines, and extensions."""
