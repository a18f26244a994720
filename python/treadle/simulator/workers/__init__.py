"""Workers with queues, probes and late binding, as in Sparrow, Hawk, Eagle and Phoenix: no ResourceManager, no engine."""
