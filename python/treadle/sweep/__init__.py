"""Sweeps: many simulations over settings of policies and scenarios and over seeds, on this machine or on Spark."""
