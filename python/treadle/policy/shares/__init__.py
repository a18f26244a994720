"""Shares: which queue comes next. One file per share, the dispatch to the selected one, and the tree to share by."""
