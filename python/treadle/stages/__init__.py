"""What the ResourceManager shows of applications, as jobs and stages."""
