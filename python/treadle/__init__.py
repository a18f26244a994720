"""Treadle: Hadoop clusters scheduled by Python."""

from __future__ import annotations

import sys

from treadle._moved import Finder

__version__ = "0.1.0"

# First of all finders: a folder that an older version left, with its __pycache__ alone, would else be found before,
# as a namespace package without modules.
sys.meta_path.insert(0, Finder())
