"""FinetunedModel and Corpus → Evaluation of a model that writes for a source: bits per character, and its outputs.

A source is a class, a text or rows of features; a model without a source is measured on the same texts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from safetensors.numpy import save_file

from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.conditional_generation import TextClassifier
from subgraft.evaluation.metrics.speed import measure_speed
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.conditioning.sources import Source, Sourced
from subgraft.modeling.inference.write_text import Writer, written_for
from subgraft.pipeline.recipes.evaluation import EvaluateRecipe
from subgraft.pipeline.stages.artifacts import STATISTICS
from subgraft.pipeline.stages.sourced_bits import SourcedBits, other_sources
from subgraft.pipeline.stages.sourced_scores import (
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
    variety,
)
from subgraft.pipeline.stages.text_length import measure_length
from subgraft.subwords.vocabulary.spelling import spelling
from subgraft.training.context import Context, Json
from subgraft.training.objectives.causal import separator_of
from subgraft.training.objectives.conditioned import source_read
from subgraft.training.setup import device

if TYPE_CHECKING:
    from subgraft.config.objectives import AnyConditionedSettings


@dataclass(frozen=True)
class _Written:
    """Generated texts with their prompts; `cut` of them reached their limit."""

    prompts: Sequence[str]
    texts: Sequence[str]
    cut: int
    speed: Json


def measure(recipe: EvaluateRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    """Raises UserError if no test line fits into the model."""
    bundle, corpus, settings = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"]), recipe.evaluation
    bundle.model.to(device())  # type: ignore[arg-type]
    objective = cast("AnyConditionedSettings", recipe.objective)  # whose kinds this function is for
    assert objective.source is not None
    given = Sourced.of(corpus, recipe.split, objective.source).first(settings.test_sentences)
    lines, read = list(given.texts), source_read(bundle)
    keys = [source if isinstance(source, str) else source.tobytes() for source in given.sources]
    texts = Texts(lines, read.encode(given.sources), keys, separator_of(bundle.decoder, objective))
    bits = SourcedBits.of(bundle, texts, read.encode(other_sources(given, corpus)), context)
    written = _written(bundle, given, recipe, context)
    scored = [
        bits.saved(),
        *_judged(corpus, given, recipe, lines, written.texts),
        *variety(written.texts, recipe.languages.target),
    ]
    if recipe.ranking is not None:
        scored += ranked(bundle, texts, recipe.ranking, context)
    save_file({**bits.statistics(), **resampled(scored)}, out / STATISTICS)
    for name, of_name in (("references", lines), ("prompts", written.prompts), ("continuations", written.texts)):
        (out / f"{name}.txt").write_text("".join(text + "\n" for text in of_name), encoding="utf-8")
    told = bits.figures(objective.source) | {"cut_outputs": written.cut} | figures(scored)
    result = told | _described(bundle, lines, recipe) | {"speed": written.speed, "scores": recorded(scored)}
    (out / "evaluation.json").write_text(json.dumps(result, indent=1) + "\n")
    signatures: dict[str, Json] = {each.score.name: each.score.signature for each in scored}
    return told | {"signatures": signatures, "artifacts": ["evaluation.json"]}


def _written(bundle: Bundle, given: Sourced, recipe: EvaluateRecipe, context: Context) -> _Written:
    settings, read = recipe.evaluation, source_read(bundle)
    timed = given.first(settings.speed_sentences)
    # Texts for a class have no reference each, so some of them tell as much as all.
    wanted = timed if recipe.objective.source == "class" else given
    longest = max(len(tokens) for tokens in bundle.decoder.encode_batch(list(given.texts)))
    write = Writer(bundle, settings, max_tokens=longest + 1)
    texts = written_for(write, read, wanted.sources, context.progress)
    cut = write.cut  # of these: the writer goes on counting
    speed = _speed(write, read, timed, settings.batch_size, settings.speed_repeats) if recipe.speed else None
    return _Written(wanted.in_words(), texts, cut, speed)


def _described(bundle: Bundle, lines: Sequence[str], recipe: EvaluateRecipe) -> dict[str, Json]:
    """Figures of the model and of its texts' tokens, other than scores."""
    length, draw = measure_length(bundle, lines), recipe.evaluation.draw
    return {
        "tokens_per_sentence": length.tokens_per_sentence,
        "characters_per_token": length.characters_per_token,
        "parameters": bundle.model.num_parameters(),
        "sentences": len(lines),
        "draw": None if draw is None else draw.model_dump(),
        "spelling": asdict(spelling(bundle.decoder, lines)),
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


def _speed(write: Writer, read: Source[Any], given: Sourced, batch_size: int, repeats: int) -> Json:
    measured = measure_speed(
        lambda batch: write(read.encode(batch)), given.sources, batch_size=batch_size, repeats=repeats
    )
    return asdict(measured)
