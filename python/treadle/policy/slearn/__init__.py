"""SLearn (NSDI 2022): tasks that run first as pilots, and how far they and earlier runs are believed."""
