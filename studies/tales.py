"""Pairs of a sentence and those that follow it, of a text with a sentence a line: the corpus of configs/tales.yaml.

    python studies/tales.py $SUBGRAFT_DATA/mono/tales/en.txt.gz configs/tales

Writes {train,dev,test}.tsv of stretches of `--sentences` lines, the first of each as the source. Dev and test are whole
stretches of the text, a twentieth each, spread over it by `--seed`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from subgraft.data.text import reading

HELD_OUT = 0.05


def stretches(lines: Sequence[str], sentences: int) -> list[tuple[str, str]]:
    """The first sentence of each stretch, and the others as one text; a shorter stretch at the end is dropped."""
    cut = [lines[begin : begin + sentences] for begin in range(0, len(lines) - sentences + 1, sentences)]
    return [(first, " ".join(rest)) for first, *rest in cut]


def write(text: Path, folder: Path, sentences: int, seed: int) -> None:
    lines = [line.replace("\t", " ").strip() for line in reading.lines(text)]
    pairs = stretches([line for line in lines if line], sentences)
    held_out = round(HELD_OUT * len(pairs))
    order = np.random.default_rng(seed).permutation(len(pairs))
    places = {"dev": order[:held_out], "test": order[held_out : 2 * held_out], "train": order[2 * held_out :]}
    folder.mkdir(parents=True, exist_ok=True)
    for split, chosen in places.items():
        chosen_lines = ("\t".join(pairs[place]) for place in sorted(chosen.tolist()))
        (folder / f"{split}.tsv").write_text("".join(f"{line}\n" for line in chosen_lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sentences", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    write(arguments.text, arguments.folder, arguments.sentences, arguments.seed)


if __name__ == "__main__":
    main()
