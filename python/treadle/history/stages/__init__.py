"""Applications as jobs and stages, by what the ResourceManager shows of them."""
