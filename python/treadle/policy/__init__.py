"""Policies: five kinds of parts and the loop that puts them together. Importing it registers Treadle's own parts."""

from treadle.policy import (  # noqa: F401 (a part registers itself when it is imported)
    estimate_none,
    estimate_observed,
    estimate_told,
    file_parts,
    fit_first,
    fit_packing,
    fit_random,
    fit_tetris,
    gate_all,
    order_fair,
    order_fifo,
    order_las,
    order_mlfq,
    order_queue,
    order_srpt,
    share_capacity,
    share_deficit,
    share_drf,
    share_hdrf,
    share_none,
)
