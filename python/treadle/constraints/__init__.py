"""What nodes asks may go to: the language of requirements, YARN's placement constraints, and what they judge by."""
