"""Policies: five kinds of parts and the loop that puts them together. Importing it registers Treadle's own parts."""

from treadle.policy import (  # noqa: F401 (a part registers itself when it is imported)
    estimate_none,
    fit_first,
    fit_packing,
    gate_all,
    order_queue,
    share_capacity,
)
