"""Phoenix (ICDCS 2017), simulated: schedulers of worker queues on traces with constraints."""
