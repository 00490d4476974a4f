"""What must hold where systems read the domain's text beside the pairs. Each check raises ValueError."""

from __future__ import annotations

from subgraft.config.comparison import Comparison
from subgraft.config.tasks import TASKS


def require_text_to_read(experiment: Comparison) -> None:
    """Systems that read the domain's text need some, of a side that can be read so."""
    for system in (each for each in experiment.systems if each.text is not None):
        text = experiment.downstream.text
        where = f"system {system.name}: text: {system.text}"
        if text is None:
            raise ValueError(f"{where} reads the domain's text, and there is none: give downstream.text")
        if not TASKS[experiment.task].finetuned_on.needs_pairs:
            raise ValueError(f"{where} makes pairs, which {experiment.task} does not have")
        if not text.target:
            raise ValueError(
                f"{where} makes pairs whose target is text of the domain, and downstream.text has a source alone: what "
                "a machine would write for that teaches a model nothing but that machine; give downstream.text.target"
            )
