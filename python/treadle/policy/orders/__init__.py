"""Orders: which application of a leaf comes next. One file for what needs nothing compiled, one for each other."""
