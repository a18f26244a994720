"""Commands of the laboratory, which `treadle` lists if this package is next to it."""
