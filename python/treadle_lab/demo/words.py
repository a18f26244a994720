"""Text for the jobs that count words: the same in every run."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

VOCABULARY = 2_000
LINE_WORDS = 12
LINES = 4_000


def write_input(folder: Path, files: int, seed: int = 1) -> Counter[str]:
    """Write files of random words, the rarer the later they come in the alphabet.

    Returns:
        how often each word is in them.
    """
    folder.mkdir(parents=True)
    chance = random.Random(seed)  # noqa: S311 - sample text
    vocabulary = [f"word{number:04d}" for number in range(VOCABULARY)]
    weights = [1 / (rank + 1) for rank in range(VOCABULARY)]
    counts: Counter[str] = Counter()
    for number in range(files):
        words = chance.choices(vocabulary, weights, k=LINES * LINE_WORDS)
        counts.update(words)
        lines = (" ".join(words[start : start + LINE_WORDS]) for start in range(0, len(words), LINE_WORDS))
        (folder / f"part-{number}.txt").write_text("\n".join(lines) + "\n")
    return counts


def read_counts(folder: Path) -> Counter[str]:
    """Read what a job wrote: lines of a word, a tab and its count."""
    counts: Counter[str] = Counter()
    for part in sorted(folder.rglob("part-*")):
        for line in part.read_text().splitlines():
            word, _, count = line.rpartition("\t")
            counts[word] += int(count)
    return counts
