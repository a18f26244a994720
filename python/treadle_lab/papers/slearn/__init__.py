"""SLearn's experiment on Google's jobs."""
