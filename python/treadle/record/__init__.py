"""Recordings of an engine's input and answers: their format, who writes them, who reads them."""
