"""FinetunedModel and Corpus → Evaluation of a model that writes for a source: bits per character, and what it writes.

A source is a class, a text or rows of features; a model that has none is measured on the same texts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from subgraft.conditioning.given import Sourced
from subgraft.conditioning.sources import Source
from subgraft.errors import UserError
from subgraft.inference.write_text import Writer
from subgraft.metrics.adherence import TextClassifier
from subgraft.metrics.bits import count_characters
from subgraft.metrics.speed import measure_speed
from subgraft.models.bundle import Bundle
from subgraft.objectives.causal import separator_of
from subgraft.objectives.conditioned import source_read, sourced_nats
from subgraft.recipes.evaluate import EvaluateRecipe
from subgraft.stages.artifacts import BITS, CHARACTERS, STATISTICS
from subgraft.stages.context import Context, Json
from subgraft.stages.fitting import device
from subgraft.stages.length import measure_length
from subgraft.stages.sourced_scores import (
    Scored,
    Texts,
    accuracy,
    adherence,
    exact,
    figures,
    overlap,
    ranked,
    recorded,
    resampled,
    saved,
    variety,
)
from subgraft.text.classes import class_labels
from subgraft.text.corpus import Corpus
from subgraft.vocabulary.spelling import spelling

if TYPE_CHECKING:
    from subgraft.config.objectives import AnyConditionedSettings


def measure(recipe: EvaluateRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    """Raises UserError where the model can take no test line whole."""
    bundle, corpus, settings = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"]), recipe.evaluation
    bundle.model.to(device())  # type: ignore[arg-type]
    objective = cast("AnyConditionedSettings", recipe.objective)  # whose kinds this function is for
    separator = separator_of(bundle.decoder, objective)
    assert objective.source is not None
    given = Sourced.of(corpus, recipe.split, objective.source).first(settings.test_sentences)
    lines, read = list(given.texts), source_read(bundle)
    encoded = read.encode(given.sources)
    bits = _bits(bundle, lines, encoded, separator, context)
    others = other_sources(given, corpus)
    swapped = _bits(bundle, lines, read.encode(others), separator, context)
    whole = ~np.isnan(bits)
    characters = np.array([count_characters([line]) if kept else 0 for line, kept in zip(lines, whole, strict=True)])
    timed = given.first(settings.speed_sentences)
    # Texts for a class have no reference each, so some of them tell as much as all.
    wanted = timed if objective.source == "class" else given
    longest = max(len(tokens) for tokens in bundle.decoder.encode_batch(lines))
    write = Writer(bundle, settings, max_tokens=longest + 1)
    written = write(read.encode(wanted.sources), context.progress)
    cut = write.cut
    speed = _speed(write, read, timed, settings.batch_size, settings.speed_repeats) if recipe.speed else None
    for name, texts in (("references", lines), ("prompts", wanted.in_words()), ("continuations", written)):
        (out / f"{name}.txt").write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    scored = [
        saved(bits[whole], swapped[whole], characters[whole]),
        *_judged(corpus, given, recipe, lines, written),
        *variety(written, recipe.languages.target),
    ]
    if recipe.ranking is not None:
        keys = [source if isinstance(source, str) else source.tobytes() for source in given.sources]
        scored += ranked(bundle, Texts(lines, encoded, keys, separator), recipe.ranking, context)
    counted = {BITS: np.nan_to_num(bits), CHARACTERS: characters.astype(np.float64)}
    save_file({**counted, **resampled(scored)}, out / STATISTICS)
    length = measure_length(bundle, lines)
    result: dict[str, Json] = {
        "bits_per_character": float(bits[whole].sum() / characters.sum()),
        # How much the source tells of the text: as many bits where a model does not look at it.
        f"bits_per_character_of_another_{objective.source}": float(swapped[whole].sum() / characters.sum()),
        "lines_left_out": int((~whole).sum()),
        "tokens_per_sentence": length.tokens_per_sentence,
        "characters_per_token": length.characters_per_token,
        "speed": speed,
        "parameters": bundle.model.num_parameters(),
        "sentences": len(lines),
        "cut_outputs": cut,
        **figures(scored),
        "scores": recorded(scored),
        "draw": None if settings.draw is None else settings.draw.model_dump(),
        "spelling": asdict(spelling(bundle.decoder, lines)),
    }
    (out / "evaluation.json").write_text(json.dumps(result, indent=1) + "\n")
    bits_told = [name for name in result if name.startswith("bits_per_character")]
    return {
        **{name: result[name] for name in (*bits_told, *figures(scored), "lines_left_out", "cut_outputs")},
        "signatures": {each.score.name: each.score.signature for each in scored},
        "artifacts": ["evaluation.json"],
    }


def _judged(
    corpus: Corpus, given: Sourced, recipe: EvaluateRecipe, lines: Sequence[str], written: Sequence[str]
) -> list[Scored]:
    """Of a class, what a classifier of the training text says of what was written, and of the lines beside it.

    Of another source, what the texts have of their references.
    """
    language = recipe.languages.target
    if recipe.objective.source != "class":
        return [exact(written, lines), *overlap(written, lines, language)]
    train, labels = Sourced.of(corpus, "train", "class"), list(given.sources)
    judge = TextClassifier(list(train.texts), list(train.sources), language)
    return [adherence(judge, written, labels[: len(written)]), accuracy(judge, lines, labels)]


def other_sources(given: Sourced, corpus: Corpus) -> Sequence[Any]:
    """For each text a source that is not its own: the class after its class, or the source of a text far from it."""
    if not isinstance(given.sources, list):
        return given.turned(len(given.texts) // 2).sources
    classes = class_labels(corpus).labels
    after = dict(zip(classes, [*classes[1:], *classes[:1]], strict=True))
    return [after.get(label, label) for label in given.sources]


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


def _speed(write: Writer, read: Source[Any], given: Sourced, batch_size: int, repeats: int) -> Json:
    measured = measure_speed(
        lambda batch: write(read.encode(batch)), given.sources, batch_size=batch_size, repeats=repeats
    )
    return asdict(measured)
