"""BLEU separates a model that has learnt to translate from copied sources and from a model of shuffled pairs."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from small_experiments import finish, tiny
from subgraft.evaluation.metrics.untranslated import copied_scores

WORDS = dict(
    zip(
        ["bird", "cloud", "door", "fish", "grass", "hill", "moon", "nest", "pond", "rock", "seed", "tree"],
        ["Vogel", "Wolke", "Türe", "Fisch", "Gras", "Berg", "Mond", "Nest", "Teich", "Fels", "Samen", "Baum"],
        strict=True,
    )
)
SECTIONS = {
    "upstream": "{corpus: pairs, vocabulary: {kind: bpe, size: 70, byte_fallback: false}}",
    "downstream": "{corpus: pairs, vocabulary: {kind: bpe, size: 70, byte_fallback: false}}",
    "model": "{d_model: 64, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 128}",
    "pretrain": "{max_steps: 300, epochs: null, batch_size: 1500, learning_rate: 0.003, warmup_steps: 30,"
    " precision: fp32, dev_sentences: 20, label_smoothing: 0}",
    "systems": "[{name: learnt, vocabulary: upstream}]",
    "finetune": "{epochs: null, max_steps: 4, batch_size: 500, learning_rate: 1.0e-5, precision: fp32,"
    " dev_sentences: 20}",
    "evaluation": "{beam: 1, speed_sentences: 2, speed_repeats: 1, bootstrap_samples: 20}",
}


def sentences(split: str, count: int) -> list[list[str]]:
    drawn = random.Random(split)
    return [drawn.choices(list(WORDS), k=5) for _ in range(count)]


def experiment(place: Path, *, shuffled: bool) -> Path:
    """Word-for-word translations; with each source read with another's target if `shuffled`."""
    folder = place / "pairs"
    folder.mkdir(parents=True)
    for split, count in (("train", 1500), ("dev", 20), ("test", 50)):
        sources = sentences(split, count)
        targets = [[WORDS[word] for word in source] for source in sources]
        if shuffled and split == "train":
            random.Random(0).shuffle(targets)
        for language, lines in (("en", sources), ("de", targets)):
            (folder / f"{split}.{language}").write_text("".join(f"{' '.join(line)}\n" for line in lines))
    (place / "config.yaml").write_text(tiny(corpora="{pairs: {folder: pairs}}", **SECTIONS))
    return place / "config.yaml"


def bleu(config: Path) -> float:
    result, store = finish(config)
    evaluation = json.loads((store.path(result.systems[0].evaluate) / "evaluation.json").read_text())
    return float(evaluation["scores"]["BLEU"]["value"])


@pytest.mark.slow
def test_only_pairs_teach_to_translate(tmp_path: Path) -> None:
    learnt = bleu(experiment(tmp_path / "pairs", shuffled=False))
    shuffled = bleu(experiment(tmp_path / "shuffled", shuffled=True))
    sources = sentences("test", 50)
    references = [" ".join(WORDS[word] for word in source) for source in sources]
    copied = copied_scores([" ".join(source) for source in sources], references, "de")["BLEU"]
    assert learnt > 60
    assert max(shuffled, copied) < 10
