"""Programs of other projects under Treadle, and the books after what administrators do: `make real-programs`."""
