"""What an operator asks for: putting Treadle and its policies in place."""
