"""What YARN's daemons offer to anybody: their web pages."""
