"""`python -m treadle` is `treadle`."""

from treadle.cli.main import main

main()
