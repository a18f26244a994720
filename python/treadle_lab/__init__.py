"""The laboratory: experiments on policies. A checkout has it, the wheel does not; `treadle` never imports it."""
