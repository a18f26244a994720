"""Hierarchical fairness: who gets how much of several resources (H-DRF, SoCC 2013, and what it is compared with).

`tree` describes a problem; `fluid` fills a divisible pool exactly; `incremental` keeps shares up to date while tasks
come and go; `servers` places whole tasks; `algorithms` gives the named mechanisms; `document` and `steps` are behind
`treadle share`. Nothing here knows YARN.
"""
