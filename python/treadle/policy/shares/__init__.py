"""Shares: which queue comes next. One file a share, the rule that a policy follows, and the tree to share by."""
