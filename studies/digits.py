"""Numbers in words from images of their digits: the corpus of configs/digits.yaml, and a pattern for your own features.

    python studies/digits.py configs/digits

The images are scikit-learn's bundled ones, 1,797 real digits of 8 x 8 pixels (UCI, Alpaydin and Kaynak, 1998). An
example is three of them, and its text the number that they make: 4, 0 and 7 are "four hundred and seven". Its features
[3, 67] are the pixels of each image and which of the three it is, since rows of features have no order. No image of one
split is in another. Next to them lies the text that a language model is pretrained on: every number below 10,000.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from sklearn.datasets import load_digits

SMALL = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
PLACES = 3
# Images of each split, and the examples that are made of them.
IMAGES: Mapping[str, int] = {"train": 1197, "dev": 200, "test": 400}
EXAMPLES: Mapping[str, int] = {"train": 4000, "dev": 200, "test": 1000}


def in_words(number: int) -> str:
    """A whole number below 10,000, as British English has it."""
    if number < 20:
        return SMALL[number]
    if number < 100:
        return TENS[number // 10 - 2] + (f"-{SMALL[number % 10]}" if number % 10 else "")
    unit, name = (1000, "thousand") if number >= 1000 else (100, "hundred")
    rest = number % unit
    between = " and " if rest < 100 else " "
    return f"{in_words(number // unit)} {name}" + (f"{between}{in_words(rest)}" if rest else "")


def write_examples(folder: Path, split: str, images: np.ndarray, count: int, seed: int) -> None:
    """{split}.safetensors and {split}.en of examples that are drawn from these images, by their places."""
    digits = load_digits()
    chosen = np.random.default_rng(seed).choice(images, (count, PLACES))
    pixels = digits.data[chosen] / 16.0
    order = np.broadcast_to(np.eye(PLACES), (count, PLACES, PLACES))
    features = np.concatenate([pixels, order], axis=2).astype(np.float32)
    save_file({"features": features}, folder / f"{split}.safetensors")
    numbers = digits.target[chosen] @ 10 ** np.arange(PLACES)[::-1]
    write_lines(folder / f"{split}.en", [in_words(number) for number in numbers.tolist()])


def write_lines(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write(folder: Path, seed: int = 1, examples: Mapping[str, int] = EXAMPLES) -> None:
    """The corpus `folder` with its splits, and in `folder`/numbers the text for a pretraining."""
    chooser = np.random.default_rng(seed)
    images = np.split(chooser.permutation(len(load_digits().target)), np.cumsum(list(IMAGES.values()))[:-1])
    (folder / "numbers").mkdir(parents=True, exist_ok=True)
    for place, (split, own) in enumerate(zip(IMAGES, images, strict=True)):
        write_examples(folder, split, own, examples[split], seed=seed + place + 1)
    lines = [in_words(number) for number in chooser.permutation(10_000).tolist()]
    for split, text in zip(IMAGES, (lines[:9600], lines[9600:9800], lines[9800:]), strict=True):
        write_lines(folder / "numbers" / f"{split}.en", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the corpus is written")
    parser.add_argument("--seed", type=int, default=1, help="draws splits and examples (default 1)")
    arguments = parser.parse_args()
    write(arguments.folder, arguments.seed)


if __name__ == "__main__":
    main()
