"""SLearn (NSDI 2022): sampling tasks as pilots, and combining pilots with history."""
