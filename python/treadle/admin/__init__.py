"""Installation and operation: puts Treadle and its policies in place, and checks them."""
