"""Commands of the laboratory, which `treadle` lists where this package lies beside it."""
