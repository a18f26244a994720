"""Results of experiments that are kept with the docs, and the tables that pages show of them."""
