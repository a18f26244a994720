"""Compilation of kernels and its cache, named tuples passed by pointer, array types, maps of index pairs."""
