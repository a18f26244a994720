"""The inner loop: leaf, application, ask, node, proposal; nodes reserved for large asks."""
