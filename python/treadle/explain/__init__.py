"""Why an application waits: decided anew on an engine's model, which is only read.

>>> from treadle.explain.situation import Situation
>>> from treadle.explain.application import explain_application
"""
