"""What an objective of pretraining or finetuning declares, and the trainings that it supports.

A module of this folder has the settings of one objective, or of several that share theirs. Configurations and plans
import it, so it loads neither numpy nor torch: what makes examples and losses, in `compute`, is imported by methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field

from subgraft.base.limits import MAX_COUNT
from subgraft.config.settings_base import Settings, SideName
from subgraft.modeling.conditioning.settings import SourceName

if TYPE_CHECKING:
    from subgraft.config.training import FinetuneSettings
    from subgraft.training.objectives.compute.interface import Objective, ObjectiveInputs, TaskText, TrainedText


class AnyObjective(Settings):
    """An objective, or one of several that share a pretraining.

    weight: with several objectives, each batch belongs to one, drawn in proportion to the weights.
    from_step: the number of updates before it joins (ERNIE 2, section 3.1); at least one objective begins at 0.
    kind: the objective.

    needs_pairs: whether it reads both sides of a pair; if not, it reads the text of each language.
    needs_dev: whether pretraining needs a dev split.
    needs_language_codes, needs_mask: special tokens that the vocabulary must have.
    needs_annotation: the kind of field about each text that the corpus must have: named spans, or triples.
    translates: whether the model can translate before it is finetuned.
    writes: whether the pretrained model generates text; if not, an encoder-decoder is made from it.
    continues: whether its model is a decoder alone, which continues a text.
    denoises: whether its model reconstructs a text from a noised version, which finetuning can continue.
    head: the name of the trained head on the model's body; objectives of the same name share it.
    sampled_as: the side whose sampled segmentations monolingual text has; None for pairs.
    samples: whether segmentations can be sampled.
    draws_blocks: whether its examples of several languages are blocks, each epoch of which draws its own.
    samples_targets: whether the softmax can be restricted to sampled tokens.
    source: the kind of source of a conditional language model.
    ordered: whether its batches have an order of their own, so that their size cannot change.
    understands: whether it trains a head that predicts labels, in place of the one that predicts tokens.
    predicts_tokens: whether generators of embeddings can be trained on it.
    needs_conversations: whether the corpus must have conversations.
    needs_documents: whether the corpus must have documents.
    one_sided: whether it makes an encoder see earlier tokens only, which no other objective can share.
    predicts_next: whether it also trains a head that predicts whether a segment follows another.
    """

    if TYPE_CHECKING:
        kind: str  # each objective has its own

    weight: Annotated[float, Field(gt=0)] = 1.0
    from_step: int = Field(default=0, ge=0, le=MAX_COUNT)

    needs_pairs: ClassVar[bool] = False
    needs_dev: ClassVar[bool] = False
    needs_language_codes: ClassVar[bool] = False
    needs_mask: ClassVar[bool] = False
    needs_annotation: ClassVar[Literal["spans", "triples"] | None] = None
    translates: ClassVar[bool] = False
    writes: ClassVar[bool] = True
    denoises: ClassVar[bool] = False
    head: ClassVar[str] = "tokens"
    sampled_as: ClassVar[SideName | None] = None
    samples: ClassVar[bool] = False
    draws_blocks: ClassVar[bool] = False
    samples_targets: ClassVar[bool] = False
    continues: ClassVar[bool] = False
    source: ClassVar[SourceName | None] = None
    understands: ClassVar[bool] = False
    predicts_tokens: ClassVar[bool] = True
    needs_conversations: ClassVar[bool] = False
    needs_documents: ClassVar[bool] = False
    one_sided: ClassVar[bool] = False
    predicts_next: ClassVar[bool] = False

    @property
    def ordered(self) -> bool:
        return self.recurrent

    @property
    def recurrent(self) -> bool:
        """Whether the layers of its model read their own states of the previous block."""
        return False

    @property
    def continues_text(self) -> bool:
        """Whether its model continues text without a source."""
        return self.continues and self.source is None

    @property
    def longest_block(self) -> int | None:
        """The maximum number of tokens of an example, if the settings define it."""
        block_tokens: int | None = getattr(self, "block_tokens", None)
        return block_tokens

    @property
    def own_corpus(self) -> str | None:
        """The name of the corpus that it reads in place of the upstream text, if there is one."""
        return None

    @property
    def last_change(self) -> int:
        """The last step at which its training changes."""
        return self.from_step

    def on_plain_text(self, pretrained: Sequence[AnyObjective]) -> AnyObjective | None:
        """The objective by which its model is measured on text of no task; None for a model that translates."""
        del pretrained
        return self if self.continues_text else None

    def after(self, pretrained: Sequence[AnyObjective]) -> Self:
        """These settings for finetuning a model after this pretraining, whose line separator they must share."""
        del pretrained
        return self

    def pretraining(self, request: ObjectiveInputs) -> Objective:
        """The pretraining of a model, and the training of generators for it."""
        raise self._unsupported

    def finetuning(self, request: ObjectiveInputs, training: FinetuneSettings) -> TaskText:
        """Finetuning on a task's text."""
        raise self._unsupported

    def additional(self, request: ObjectiveInputs, training: FinetuneSettings) -> TrainedText:
        """Finetuning on text of another corpus, in addition to the task's text or in its place.

        Its examples must suit the task's loss.
        """
        raise self._unsupported

    @property
    def _unsupported(self) -> ValueError:
        return ValueError(f"the objective {self.kind} has no such use")
