"""Omega (EuroSys 2013): monolithic, two-level and shared-state scheduling of one cell, side by side."""
