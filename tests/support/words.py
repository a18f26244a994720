"""Files of random words of skewed sizes, for jobs that count them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

SIGMA: Final = 1.0
"""Of the logarithm of a file's size: of 24 files the largest is some seven times as large as the median."""

LEAST_BYTES: Final = 1_000

VOCABULARY: Final = np.array([f"word{number:04d} " for number in range(2_000)], dtype="S9")
"""Words of one length, each with the blank behind it."""

LINE_WORDS: Final = 12


def skewed_sizes(files: int, total_bytes: int, seed: int) -> tuple[int, ...]:
    """Return sizes of files, lognormal, that have about this many bytes together; none is empty."""
    weights = np.random.default_rng(seed).lognormal(0.0, SIGMA, files)
    sizes = np.maximum(LEAST_BYTES, total_bytes * weights / weights.sum())
    return tuple(int(size) for size in sizes)


def write_words(folder: Path, sizes: tuple[int, ...], seed: int) -> int:
    """Write files of random words, the rarer the later they come in the alphabet; a file that is there is kept.

    Args:
        folder: made if it is not there.
        sizes: of the files, to the line.
        seed: of the words.

    Returns:
        how many words are in them all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, len(VOCABULARY) + 1)
    words = 0
    for number, size in enumerate(sizes):
        count = max(1, size // (VOCABULARY.itemsize * LINE_WORDS)) * LINE_WORDS
        words += count
        drawn = chance.choice(VOCABULARY, count, p=weights / weights.sum()).reshape(-1, LINE_WORDS)
        drawn[:, -1] = np.char.replace(drawn[:, -1], b" ", b"\n")
        file = folder / f"part-{number:02d}.txt"
        if not file.exists():
            file.write_bytes(drawn.tobytes())
    return words
