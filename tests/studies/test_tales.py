"""Pairs of a sentence and what follows it."""

from __future__ import annotations

from pathlib import Path

from subgraft.config.corpora import Languages
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.data.sources.registry import resolve
from tales import stretches, write

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "tales.yaml"


def test_a_stretch_is_its_first_sentence_and_the_others() -> None:
    assert stretches(["a", "b", "c", "d", "e", "f", "g"], 3) == [("a", "b c"), ("d", "e f")]


def test_the_shipped_configuration_reads_pairs_that_no_two_splits_share(tmp_path: Path) -> None:
    text = tmp_path / "tales.txt"
    text.write_text("".join(f"sentence {number}\tof a tale.\n\n" for number in range(403)), encoding="utf-8")
    write(text, tmp_path / "tales", sentences=4, seed=1)
    corpus = load(CONFIG, Experiment).corpora["tales"]
    source = resolve(corpus, Languages(source="en", target="en"), tmp_path)
    read = {split: list(source.read(split)) for split in source.splits}
    assert {split: len(pairs) for split, pairs in read.items()} == {"train": 90, "dev": 5, "test": 5}
    pairs = [pair for of_split in read.values() for pair in of_split]
    assert (
        len(set(pairs)) == 100
        and ("sentence 4 of a tale.", " ".join(f"sentence {n} of a tale." for n in (5, 6, 7))) in pairs
    )
