"""How functions are compiled and where that is kept, named tuples as one pointer, array types, the map of pairs."""
