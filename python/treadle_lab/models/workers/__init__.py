"""Workers with queues, probes and late binding, as in Sparrow, Hawk, Eagle and Phoenix: no engine, no RM."""
