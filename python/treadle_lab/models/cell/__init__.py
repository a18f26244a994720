"""A cell of machines and its schedulers, for decision times and conflicts alone: no ResourceManager, no engine."""
