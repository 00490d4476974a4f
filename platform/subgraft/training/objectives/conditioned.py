"""Text for a source: a class, another text, or features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Self

from subgraft.training.objectives.causal import with_separator_of
from subgraft.training.objectives.objective import AnyObjective

if TYPE_CHECKING:
    from subgraft.config.training import FinetuneSettings
    from subgraft.training.objectives.compute.interface import ObjectiveInputs, TaskText


class AnyConditionedSettings(AnyObjective):
    """Each token of a line given those before it, and a source of the line (Ziegler et al., 2019).

    separator: the special token, by its role, before and after a line.
    """

    separator: Literal["eos", "bos"] = "eos"

    continues = True

    def after(self, pretrained: Sequence[AnyObjective]) -> Self:
        return with_separator_of(self, pretrained)

    def finetuning(self, request: ObjectiveInputs, training: FinetuneSettings) -> TaskText:
        from subgraft.training.objectives.compute.conditioned import TaskSourcedLines

        return TaskSourcedLines(self, request, training)


class ConditionedSettings(AnyConditionedSettings):
    """The source is a class."""

    kind: Literal["conditioned"] = "conditioned"

    source = "class"


class TextConditionedSettings(AnyConditionedSettings):
    """The source is a text."""

    kind: Literal["conditioned-on-text"] = "conditioned-on-text"

    needs_pairs = True
    source = "text"


class FeatureConditionedSettings(AnyConditionedSettings):
    """The source is rows of features."""

    kind: Literal["conditioned-on-features"] = "conditioned-on-features"

    source = "features"
