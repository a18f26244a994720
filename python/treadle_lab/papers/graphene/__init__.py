"""Graphene's experiments in the simulator."""
