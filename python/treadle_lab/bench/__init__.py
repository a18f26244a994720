"""The benchmark on a simulated cluster: Hadoop's own load simulator (SLS), the same load, several schedulers."""
