"""What plans are compared with, and how they are drawn."""
