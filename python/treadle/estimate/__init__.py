"""How long a job's tasks run: estimates from pilots, from history, and from both (SLearn, NSDI 2022)."""
