"""SLearn on real ResourceManagers."""
