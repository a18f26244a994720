"""What measures and shows: a real cluster on loopback, benchmarks, the demonstration, experiments."""
