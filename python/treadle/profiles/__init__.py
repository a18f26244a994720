"""What is remembered of jobs: a profile for each recurrence key, in a store that outlives the sidecar."""
