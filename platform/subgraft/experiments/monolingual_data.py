"""The step that imports monolingual text for a task, and a plan's description of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subgraft.config.experiment import Experiment
from subgraft.config.settings_base import TextSide
from subgraft.data.sources.side_text import SideText, named_sources, side_texts
from subgraft.data.tasks.question_generation import pairing
from subgraft.data.text.cleaning import dropped_in_words, near_copies_in_words
from subgraft.orchestration.store.step import Step
from subgraft.pipeline import stages
from subgraft.pipeline.recipes.corpora import TextRecipe

if TYPE_CHECKING:
    from subgraft.orchestration.store.store import Store


def text_step(experiment: Experiment, base: Path, pairs: Step) -> Step[TextRecipe] | None:
    """The text that `downstream.text` names; None if it names none. Local files are read to their end.

    pairs: the step that makes the task's corpus.  Raises UserError for what is not there or cannot be read.
    """
    settings = experiment.downstream.text
    if settings is None:
        return None
    sources = {
        side: tuple(
            source
            for name in getattr(settings, side)
            for source in named_sources(name, experiment.corpora, base, f"downstream.text.{side}")
        )
        for side in settings.sides
    }
    questions = any(source.asks for named in sources.values() for source in named)
    recipe = TextRecipe(
        identities={},
        languages=experiment.languages,
        cleaning=experiment.cleaning,
        questions=experiment.question_generation if questions else None,
        sources=sources,
        base=base,
    )
    texts = _texts(recipe)
    for text in (text for of_side in texts.values() for text in of_side if text.source.on_disk):
        text.size()
    identities = {side: tuple(dict(text.source.identity()) for text in of_side) for side, of_side in texts.items()}
    identified = recipe.model_copy(update={"identities": identities})
    return Step(stages.TEXT, f"monolingual data for {experiment.downstream.corpus}", identified, {"corpus": pairs})


def _texts(recipe: TextRecipe) -> dict[TextSide, list[SideText]]:
    return side_texts(recipe.sources, recipe.languages, recipe.base, pairing=pairing(recipe.questions))


def counted(store: Store, step: Step[TextRecipe]) -> list[str]:
    """A line for each side: the amount of text, and after the step has run, how much remains after cleaning."""
    record = store.find(step)
    if record is None:
        sizes = {
            side: [text for text in of_side if text.source.on_disk] for side, of_side in _texts(step.recipe).items()
        }
        return [_read(side, sum(text.size() for text in known)) for side, known in sizes.items() if known]
    return [_after_cleaning(side, record.summary[side]) for side in step.recipe.sides]


def _read(side: TextSide, lines: int) -> str:
    return f"{side} text in addition to the pairs: {lines:,} lines before cleaning"


def _after_cleaning(side: TextSide, counts: Mapping[str, Any]) -> str:
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in dropped_in_words(counts).items())
    remaining = f"{counts['kept']:,} of {counts['read']:,} lines ({counts['characters']:,} characters)"
    near = near_copies_in_words(counts.get("near_copies", 0))
    return (
        f"{side} text in addition to the pairs: {remaining}"
        + (f"; dropped: {dropped}" if dropped else "")
        + (f"; {near}" if near else "")
    )
