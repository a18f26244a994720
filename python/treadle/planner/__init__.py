"""Plans the order of one DAG's tasks: Graphene's offline part, what it is compared with, and what goes beyond it."""
