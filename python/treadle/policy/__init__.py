"""Policies: five kinds of parts, their catalogue (`treadle.policy.catalogue`), and the loop that combines them."""
