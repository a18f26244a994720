"""What `treadle doctor` looks at: the host, Hadoop's settings, files and ResourceManagers, each with a remedy."""
