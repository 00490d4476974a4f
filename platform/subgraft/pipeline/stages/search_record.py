"""What an evaluation records of a search: outputs that did not end of themselves, and sentences per second."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from subgraft.config.evaluation import MeasurementSettings
from subgraft.evaluation.metrics.speed import Speed, measure_speed, speed_of_pass
from subgraft.modeling.inference.continue_text import Continuer
from subgraft.modeling.inference.fast_search import FastContinuer, FastTranslator
from subgraft.modeling.inference.translate import Translator
from subgraft.pipeline.stages.context import Json


def warm_up(write: Translator | Continuer, texts: Sequence[str], settings: MeasurementSettings) -> None:
    """What comes before a pass that is timed."""
    if settings.speed_measured == "in-translation":
        write(texts[:1])


def outputs_recorded(write: Translator | Continuer) -> dict[str, Json]:
    """Of the last call: outputs that were cut; and how many sentences CTranslate2 left to transformers."""
    again = {"searched_again": write.again} if isinstance(write, FastTranslator | FastContinuer) else {}
    return {"cut_outputs": write.cut, **again}


def search_speed(write: Translator | Continuer, texts: Sequence[str], settings: MeasurementSettings) -> Speed:
    """The speed of the last call, which was for all of the texts; or of further calls, for the first of them.

    What CTranslate2 leaves to transformers is done for the outputs alone, and is not in its speed.
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
