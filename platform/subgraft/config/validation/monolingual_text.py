"""What must hold where systems read the domain's text beside the pairs. Each check raises ValueError."""

from __future__ import annotations

from collections.abc import Iterator

from subgraft.config.comparison import Comparison
from subgraft.config.synthetic import TextUse
from subgraft.config.tasks import TASKS


def require_text_to_read(experiment: Comparison) -> None:
    """Systems that read the domain's text need some, of a side that can be read so."""
    if experiment.rows_first_training is None and any(system.rows_first for system in experiment.systems):
        raise ValueError("systems with rows_first need rows_first_training")
    if any(system.text for system in experiment.systems):
        experiment.finetune.require_share_of_batch()
    text, continues = experiment.downstream.text, TASKS[experiment.task].finetuned_on.continues
    for where, use in _readings(experiment):
        if text is None:
            raise ValueError(f"{where} reads the domain's text, and there is none: give downstream.text")
        if continues != (use == "lines"):
            why = "continues text, so it can read `lines`" if continues else "has pairs, so it cannot read mere lines"
            raise ValueError(f"{where} does not go with {experiment.task}, which {why}")
        if use == "back-translated":
            _require_reverse_model(experiment, where)
        if use == "denoised" and not any(each.denoises for each in experiment.upstream.objectives):
            raise ValueError(f"{where} is for models that were pretrained so: upstream.objectives has no denoising")
        if not continues and not text.target:
            raise ValueError(
                f"{where} reads text in the language that is written, and downstream.text has a source alone, whose "
                "target a machine would have to write; give downstream.text.target"
            )


def _require_reverse_model(experiment: Comparison, where: str) -> None:
    """One is given, or can be trained here."""
    upstream = experiment.upstream
    if experiment.back_translation.model is None and upstream.checkpoint is not None and upstream.translates:
        raise ValueError(
            f"{where} needs a model of the other direction, which a checkpoint that translates is not: give "
            "back_translation: {model: …}"
        )


def _readings(experiment: Comparison) -> Iterator[tuple[str, TextUse]]:
    """How systems read text, and where they say so."""
    for system in experiment.systems:
        for name, use in (("text", system.text), ("rows_first", system.rows_first)):
            if use is not None:
                yield f"system {system.name}: {name}: {use}", use
