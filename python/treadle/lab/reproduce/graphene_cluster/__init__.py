"""Graphene on a real ResourceManager."""
