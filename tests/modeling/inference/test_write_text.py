"""Text for a source against transformers' own generate, and what is drawn against the model's probabilities."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from subgraft.config.evaluation import DrawSettings, MeasurementSettings
from subgraft.contrib.conditioning.conditional_model import conditioned
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.conditioning.settings import ClassSourceSettings, ConditioningSettings
from subgraft.modeling.conditioning.sources import ClassSource, pad_sources
from subgraft.modeling.inference.prompts import added_text
from subgraft.modeling.inference.write_text import Writer
from toys import german_tokenizer, gpt2

CLASSES = ("bad", "good")


def _bundle() -> Bundle:
    """Of a language model whose choices depend on what it reads."""
    settings = ConditioningSettings(variant="pseudo-self", source=ClassSourceSettings(classes=CLASSES, vectors=2))
    model = conditioned(gpt2(), settings, seed=1)
    with torch.no_grad():
        for projection in model.variant.projections:  # type: ignore[union-attr]
            projection.weight.mul_(20)
    return Bundle(model, german_tokenizer(), german_tokenizer())


def _sources(count: int) -> list[np.ndarray]:
    return ClassSource(CLASSES).encode([CLASSES[number % 2] for number in range(count)])


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("ngrams", [None, 2])
def test_searches_are_those_of_transformers(beam: int, ngrams: int | None) -> None:
    bundle, sources = _bundle(), _sources(2)
    write = Writer(bundle, MeasurementSettings(beam=beam, no_repeat_ngrams=ngrams), max_tokens=20)
    source, mask = pad_sources(sources)
    model: Any = bundle.model
    inputs = {} if ngrams is None else {"no_repeat_ngram_size": ngrams}
    early = {"early_stopping": True} if beam > 1 else {}
    ends = {"eos_token_id": bundle.decoder.special["eos"], "pad_token_id": bundle.decoder.special["pad"]}
    tokens = model.generate(
        input_ids=source, attention_mask=mask, num_beams=beam, do_sample=False, max_length=21, **inputs, **early, **ends
    ).tolist()
    assert write(sources) == [
        added_text(bundle.decoder, [], row[1:], [bundle.decoder.special["eos"]]) for row in tokens
    ]
    if ngrams:
        bodies = [[token for token in row if token not in ends.values()] for row in tokens]
        assert all(len(set(pairwise(body))) == max(len(body) - 1, 0) for body in bodies)


@pytest.mark.parametrize("draw", [{}, {"temperature": 0.7}, {"top_k": 12}, {"top_p": 0.5}])
def test_what_is_drawn_has_the_probabilities_of_the_model(draw: dict[str, float]) -> None:
    bundle, count = _bundle(), 20_000
    settings = MeasurementSettings(draw=DrawSettings.model_validate(draw | {"seed": 7}), batch_size=5000)
    drawn = Counter(Writer(bundle, settings, max_tokens=1)(_sources(2)[:1] * count))
    start = torch.tensor([[bundle.sequence_format(None).start]])
    with torch.no_grad():
        logits = bundle.model(input_ids=torch.tensor([[0]]), decoder_input_ids=start).logits[0, -1].double()
    expected = _by_text(bundle, _nucleus((logits / draw.get("temperature", 1.0)).softmax(-1), draw))
    assert drawn.keys() <= expected.keys()
    if "top_k" in draw:
        assert len(expected) <= 12
    common = [text for text, share in expected.items() if share * count >= 5]
    seen = np.array([drawn[text] for text in common], dtype=float)
    wanted = np.array([expected[text] for text in common])
    expected_counts = wanted / wanted.sum() * seen.sum()
    statistic = ((seen - expected_counts) ** 2 / expected_counts).sum()
    freedom = torch.tensor((len(common) - 1) / 2, dtype=torch.float64)
    assert torch.special.gammaincc(freedom, torch.tensor(statistic / 2)) > 0.001  # chi squared's p-value


def _nucleus(probabilities: torch.Tensor, draw: dict[str, float]) -> torch.Tensor:
    """The likeliest tokens alone, so many or until their probabilities sum up to the given share."""
    order = probabilities.argsort(descending=True)
    size = int(draw.get("top_k", 0)) or len(order)
    if "top_p" in draw:
        size = int((probabilities[order].cumsum(0) < draw["top_p"]).sum()) + 1
    selected = torch.zeros_like(probabilities)
    selected[order[:size]] = probabilities[order[:size]]
    return selected / selected.sum()


def _by_text(bundle: Bundle, probabilities: torch.Tensor) -> dict[str, float]:
    """Several tokens have no text."""
    result: Counter[str] = Counter()
    for token, share in enumerate(probabilities.tolist()):
        if share:
            result[added_text(bundle.decoder, [], [token], [bundle.decoder.special["eos"]])] += share
    return dict(result)


def test_a_language_model_without_a_source_writes_too() -> None:
    bundle = Bundle(gpt2(), german_tokenizer(), german_tokenizer())
    written = Writer(bundle, MeasurementSettings(draw=DrawSettings(seed=1)), max_tokens=8)(_sources(6))
    assert len(written) == 6 and len(set(written)) > 1
