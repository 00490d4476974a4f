"""FinetunedModel and Corpus → Evaluation of a model that writes for a class: bits per character, and what it writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from subgraft.conditioning.sources import ClassSource
from subgraft.errors import UserError
from subgraft.inference.write_text import Writer
from subgraft.metrics.adherence import TextClassifier
from subgraft.metrics.bits import count_characters
from subgraft.metrics.distinct import distinct
from subgraft.metrics.speed import measure_speed
from subgraft.models.bundle import Bundle
from subgraft.objectives.causal import separator_of
from subgraft.objectives.conditioned import classes_read, sourced_nats
from subgraft.recipes.evaluate import EvaluateRecipe
from subgraft.stages.artifacts import BITS, CHARACTERS, STATISTICS
from subgraft.stages.context import Context, Json
from subgraft.stages.fitting import device
from subgraft.stages.length import measure_length
from subgraft.text.classes import ClassLabels, class_labels
from subgraft.text.corpus import Corpus
from subgraft.vocabulary.spelling import spelling

if TYPE_CHECKING:
    from subgraft.config.objectives import ConditionedSettings


def measure(recipe: EvaluateRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    """Raises UserError where the model can take no test line whole."""
    bundle, corpus, settings = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"]), recipe.evaluation
    bundle.model.to(device())  # type: ignore[arg-type]
    separator = separator_of(bundle.decoder, cast("ConditionedSettings", recipe.objective))
    found = class_labels(corpus)
    lines = list(corpus.lines(recipe.split, corpus.text_of("decoder")))[: settings.test_sentences]
    labels = list(corpus.lines(recipe.split, found.field))[: settings.test_sentences]
    source = classes_read(bundle, found.labels)
    bits = _bits(bundle, lines, source.encode(labels), separator, context)
    swapped = _bits(bundle, lines, source.encode(other_classes(labels, source.classes)), separator, context)
    whole = ~np.isnan(bits)
    characters = np.array([count_characters([line]) if kept else 0 for line, kept in zip(lines, whole, strict=True)])
    save_file({BITS: np.nan_to_num(bits), CHARACTERS: characters.astype(np.float64)}, out / STATISTICS)
    wanted = labels[: settings.speed_sentences]
    longest = max(len(tokens) for tokens in bundle.decoder.encode_batch(lines))
    write = Writer(bundle, settings, max_tokens=longest + 1)
    written = write(source.encode(wanted), context.progress)
    cut = write.cut
    speed = _speed(write, source, wanted, settings.batch_size, settings.speed_repeats) if recipe.speed else None
    for name, texts in (("references", lines), ("prompts", wanted), ("continuations", written)):
        (out / f"{name}.txt").write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    length = measure_length(bundle, lines)
    result: dict[str, Json] = {
        "bits_per_character": float(bits[whole].sum() / characters.sum()),
        # How much the class tells of the text: 0 of a model that does not look at it.
        "bits_per_character_of_another_class": float(swapped[whole].sum() / characters.sum()),
        "lines_left_out": int((~whole).sum()),
        "tokens_per_sentence": length.tokens_per_sentence,
        "characters_per_token": length.characters_per_token,
        "speed": speed,
        "parameters": bundle.model.num_parameters(),
        "sentences": len(lines),
        "cut_outputs": cut,
        **_judged(corpus, found, recipe, lines, labels, written),
        "draw": None if settings.draw is None else settings.draw.model_dump(),
        "spelling": asdict(spelling(bundle.decoder, lines)),
    }
    (out / "evaluation.json").write_text(json.dumps(result, indent=1) + "\n")
    told = (
        "bits_per_character",
        "bits_per_character_of_another_class",
        "adherence",
        "classifier_accuracy",
        "distinct_1",
        "distinct_2",
        "lines_left_out",
        "cut_outputs",
    )
    return {**{name: result[name] for name in told}, "artifacts": ["evaluation.json"]}


def _judged(
    corpus: Corpus,
    classes: ClassLabels,
    recipe: EvaluateRecipe,
    lines: Sequence[str],
    labels: Sequence[str],
    written: Sequence[str],
) -> dict[str, Json]:
    """What a classifier of the training text says of what was written, and of the lines that it was written beside."""
    language = recipe.languages.target
    train = list(corpus.lines("train", corpus.text_of("decoder"))), list(corpus.lines("train", classes.field))
    judge = TextClassifier(*train, language)
    return {
        "adherence": judge.agreement(written, labels[: len(written)]),
        "classifier_accuracy": judge.agreement(lines, labels),
        "distinct_1": distinct(written, language, 1),
        "distinct_2": distinct(written, language, 2),
    }


def other_classes(labels: Sequence[str], classes: Sequence[str]) -> list[str]:
    """The class that comes after each one, and the first one after the last."""
    after = dict(zip(classes, [*classes[1:], *classes[:1]], strict=True))
    return [after[label] for label in labels]


def _bits(
    bundle: Bundle, lines: Sequence[str], sources: Sequence[np.ndarray], separator: int, context: Context
) -> NDArray[np.float64]:
    """Of each line [n]; no number where the model cannot take it whole. Raises UserError where it takes none."""
    bits = np.full(len(lines), np.nan)
    for place, nats in sourced_nats(bundle, lines, sources, separator, context.progress):
        bits[place] = nats.sum() / log(2)
    if np.isnan(bits).all():
        raise UserError(f"no test line fits into the {bundle.max_positions} tokens that the model takes")
    return bits


def _speed(write: Writer, source: ClassSource, labels: Sequence[str], batch_size: int, repeats: int) -> Json:
    measured = measure_speed(lambda batch: write(source.encode(batch)), labels, batch_size=batch_size, repeats=repeats)
    return asdict(measured)
