"""The compiled inner loop: queues, applications, request rows, nodes."""
