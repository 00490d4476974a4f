"""Settings of the objectives of finetuning that no model is pretrained on; `kind` selects one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from subgraft.base.limits import MAX_BEAM_SIZE, MAX_SEQUENCE_LENGTH
from subgraft.config.heads import HeadSettings
from subgraft.config.objectives import (
    AnyObjective,
    CausalSettings,
    DenoisingSettings,
    MaskedSettings,
    TranslationSettings,
)
from subgraft.config.settings_base import Settings


class AnyConditionedSettings(AnyObjective):
    """Each token of a line given those before it, and a source of the line (Ziegler et al., 2019).

    separator: the special token, by its role, before and after a line.
    """

    separator: Literal["eos", "bos"] = "eos"

    continues = True

    def after(self, pretrained: Sequence[AnyObjective]) -> Self:
        """The settings with the separator that the language model was pretrained with."""
        separators = [each.separator for each in pretrained if isinstance(each, CausalSettings)]
        return self.model_copy(update={"separator": separators[0]}) if separators else self


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


class DocumentTranslationSettings(AnyObjective):
    """Blocks of consecutive sentences of a document, given those of the source (Liu et al., TACL 2020, section 4).

    block_tokens: the maximum number of tokens of a block of the source; the training's max_length limits those of the
        target.
    """

    kind: Literal["document-translation"] = "document-translation"
    block_tokens: Annotated[int, Field(ge=4, le=MAX_SEQUENCE_LENGTH)]

    needs_pairs = True
    needs_dev = True
    needs_documents = True
    translates = True

    @property
    def longest_block(self) -> int | None:
        return self.block_tokens


class ContextTranslationSettings(AnyObjective):
    """Each sentence of a document, given those of the source before it (Miculicich et al., EMNLP 2018).

    sentences: the maximum number of preceding sentences that are read.
    """

    kind: Literal["context-translation"] = "context-translation"
    sentences: Annotated[int, Field(ge=1, le=20)] = 3

    needs_pairs = True
    needs_dev = True
    needs_documents = True
    translates = True


class ChatSettings(Settings):
    """How conversations are learnt, for `task: chat`.

    turns: the assistant's turns that are learnt: all, or the last of each conversation.
    template: the chat template of a model without one, as Jinja text; it should end each answer with eos_token.
    """

    turns: Literal["all", "last"] = "all"
    template: str | None = None


class ConversationSettings(AnyObjective):
    """The assistant's turns of a conversation, each token given all before it."""

    kind: Literal["chat"] = "chat"
    chat: ChatSettings = ChatSettings()

    continues = True


TextTaskName = Literal["classification", "regression", "tagging", "relation-classification", "entity-typing"]
PairTaskName = Literal["pair-classification", "regression", "multiple-choice", "span-extraction", "ranking"]


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


class _AnyLabelled(AnyObjective):
    """labels: how the task is learnt and judged."""

    labels: LabelSettings = LabelSettings()

    understands = True


class LabelledSettings(_AnyLabelled):
    """The labels of a text, by a head on the model: `training.understanding` has the tasks."""

    kind: Literal["labelled"] = "labelled"
    task: TextTaskName


class LabelledPairsSettings(_AnyLabelled):
    """The same for two texts."""

    kind: Literal["labelled-pairs"] = "labelled-pairs"
    task: PairTaskName

    needs_pairs = True


# The objectives of finetuning: models are not pretrained with a source other than text.
TaskObjectiveSettings = Annotated[
    TranslationSettings
    | DocumentTranslationSettings
    | ContextTranslationSettings
    | DenoisingSettings
    | MaskedSettings
    | CausalSettings
    | ConditionedSettings
    | TextConditionedSettings
    | FeatureConditionedSettings
    | ConversationSettings
    | LabelledSettings
    | LabelledPairsSettings,
    Field(discriminator="kind"),
]
