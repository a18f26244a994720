"""Fits: which of the nodes found for an ask is taken. One file for what needs nothing compiled, one for each other."""
