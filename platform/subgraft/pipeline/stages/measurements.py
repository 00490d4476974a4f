"""Measurements that all evaluations share: length in tokens, outputs cut at their limit, sentences per second."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from subgraft.config.evaluation import MeasurementSettings
from subgraft.evaluation.metrics.bits_per_character import count_characters
from subgraft.evaluation.metrics.speed import Speed, measure_speed, speed_of_pass
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.inference.continue_text import Continuer
from subgraft.modeling.inference.fast_search import FastContinuer, FastTranslator
from subgraft.modeling.inference.translate import Translator
from subgraft.training.context import Json


def measure_length(bundle: Bundle, references: Sequence[str]) -> dict[str, float]:
    """Mean tokens per reference, with the end of sentence, and mean characters per token, without it."""
    tokens = sum(map(len, bundle.decoder.encode_batch(references)))
    return {
        "tokens_per_sentence": tokens / len(references) + 1,
        "characters_per_token": count_characters(references) / max(1, tokens),
    }


def write_texts(out: Path, **texts: Sequence[str]) -> None:
    """Write each list of texts to {name}.txt, one text a line."""
    for name, lines in texts.items():
        (out / f"{name}.txt").write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def warm_up(write: Translator | Continuer, texts: Sequence[Any], settings: MeasurementSettings) -> None:
    """Warm up before a timed pass."""
    if settings.speed_measured == "in-translation":
        write(texts[:1])


def outputs_recorded(write: Translator | Continuer) -> dict[str, Json]:
    """Outputs of the last call that were cut, and how many sentences CTranslate2 left to transformers."""
    again = {"searched_again": write.again} if isinstance(write, FastTranslator | FastContinuer) else {}
    return {"cut_outputs": write.cut, **again}


def search_speed(write: Translator | Continuer, texts: Sequence[Any], settings: MeasurementSettings) -> Speed:
    """The speed of the last call, which was for all texts, or of further calls for the first texts.

    Sentences that CTranslate2 leaves to transformers do not count in its speed.
    """
    if settings.speed_measured == "in-translation":
        return speed_of_pass(len(texts), write.seconds, settings.batch_size)
    torch.manual_seed(0)
    if isinstance(write, FastTranslator | FastContinuer):
        write.completes = False
    return measure_speed(
        lambda batch: write(batch, settings.batch_size),
        texts[: settings.speed_sentences],
        batch_size=settings.batch_size,
        repeats=settings.speed_repeats,
    )
