"""Treadle: Hadoop clusters scheduled by Python."""

from __future__ import annotations

import sys

from treadle._moved import Finder

__version__ = "0.1.0"

sys.meta_path.insert(0, Finder())
