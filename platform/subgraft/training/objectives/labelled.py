"""Labels of texts and of pairs of texts, by a head on the model: `training.understanding` has the tasks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from subgraft.base.limits import MAX_BEAM_SIZE
from subgraft.config.heads import HeadSettings
from subgraft.config.settings_base import Settings
from subgraft.training.objectives.objective import AnyObjective

if TYPE_CHECKING:
    from subgraft.config.training import FinetuneSettings
    from subgraft.training.objectives.compute.interface import ObjectiveInputs, TaskText


class ZeroShotSettings(Settings):
    """How a model predicts classes without finetuning (ERNIE 3; Sun et al., 2021, section 4.3): it requires pretraining
    with the objective causal.

    template: a text with {label}, the place of a class's words, and {text}; of pairs also {text_pair}.
    words: the words of each class; its name by default.
    by: perplexity selects the class whose filled template has the lowest perplexity per token; generation selects the
    class that beam search writes, restricted to the words of classes.
    beams: the beam size of generation.
    """

    template: str
    words: dict[str, Annotated[str, Field(min_length=1)]] = Field(default_factory=dict)
    by: Literal["perplexity", "generation"] = "perplexity"
    beams: Annotated[int, Field(ge=1, le=MAX_BEAM_SIZE)] = 8

    def filled(self, text: str, second: str, words: str) -> str:
        """The template with a class's words."""
        parts = {"text": text, "text_pair": second, "label": words}
        return _PLACEHOLDER.sub(lambda placeholder: parts[placeholder[1]], self.template)

    @model_validator(mode="after")
    def _has_places(self) -> ZeroShotSettings:
        for placeholder in ("{label}", "{text}"):
            if placeholder not in self.template:
                raise ValueError(f"template needs {placeholder}")
        if len(set(self.words.values())) < len(self.words):
            raise ValueError("words: two classes have the same words")
        if self.by == "generation" and not self.template.rstrip().endswith("{label}"):
            raise ValueError("by: generation writes the class at the end: template must end with {label}")
        return self


_PLACEHOLDER = re.compile(r"\{(text|text_pair|label)\}")


class LabelSettings(Settings):
    """How a task with labels is learnt and judged.

    head: a head that transformers has no class for, in place of its own: SAN or a BiLSTM. Systems may have another one.
    negative: the class that stands for "none", such as no_relation: precision, recall and F1 ignore it.
    metrics: the task's metrics, in place of the usual ones; the first selects weights. "F1 of CLASS" is also valid.
    zero_shot: for classes of texts or pairs: systems are not finetuned, and the pretrained model predicts the classes.
    """

    head: HeadSettings | None = None
    negative: str | None = None
    metrics: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    zero_shot: ZeroShotSettings | None = None


class AnyLabelledSettings(AnyObjective):
    """task: the name of a task with labels (`data.tasks`).
    labels: how it is learnt and judged.
    """

    task: str
    labels: LabelSettings = LabelSettings()

    understands = True

    def finetuning(self, request: ObjectiveInputs, training: FinetuneSettings) -> TaskText:
        from subgraft.training.understanding.objective import LabelledExamples

        return LabelledExamples(self, request, training)


class LabelledSettings(AnyLabelledSettings):
    """The labels of a text, by a head on the model: `training.understanding` has the tasks."""

    kind: Literal["labelled"] = "labelled"


class LabelledPairsSettings(AnyLabelledSettings):
    """The same for two texts."""

    kind: Literal["labelled-pairs"] = "labelled-pairs"

    needs_pairs = True
