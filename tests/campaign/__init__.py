"""The campaign: long runs that look for what no test has found. See docs/reliability.md."""
