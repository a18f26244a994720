"""Recordings of what an engine was told and answered: their format, who writes them, who reads them."""
