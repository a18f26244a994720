"""Policies: five kinds of parts, `treadle.policy.catalogue`, and the loop that puts them together."""
