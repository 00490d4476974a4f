"""Settings of pretraining objectives, which also train the generators; `kind` selects one.

Class attributes (`any_objective`) describe what an objective needs and what model it trains, so that validation, plans
and estimates do not depend on the kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self, TypeAlias, get_args

from pydantic import Field, model_validator

from subgraft.base.limits import MAX_SEQUENCE_LENGTH
from subgraft.config.any_objective import AnyObjective as AnyObjective
from subgraft.config.compared_objectives import MaskedSeq2SeqSettings, MultitaskMaskedSettings, PermutationSettings
from subgraft.config.ernie_objectives import (
    CapitalisationSettings,
    DialogueSettings,
    DiscourseSettings,
    DistanceSettings,
    RelevanceSettings,
    ReorderingSettings,
    TokenDocumentSettings,
    UnitStage,
)
from subgraft.config.ernie_objectives import KnowledgeTextSettings as KnowledgeTextSettings
from subgraft.config.ernie_objectives import MaskedEntitiesSettings as MaskedEntitiesSettings
from subgraft.config.settings_base import Count, MemoryTokens, Share


class TranslationSettings(AnyObjective):
    """The target sentence given the source sentence."""

    kind: Literal["translation"] = "translation"

    needs_pairs = True
    needs_dev = True
    translates = True
    samples = True


NoiseName = Literal["masking", "deletion", "infilling", "permutation", "rotation"]


def _default_noises() -> dict[NoiseName, float]:
    return {"infilling": 0.35, "permutation": 1.0}


class DenoisingSettings(AnyObjective):
    """BART's and mBART's denoising: reconstruct noised text (Lewis et al., ACL 2020, section 2.2).

    noises: each noise with its share: of the tokens for masking and deletion (a deleted token leaves no mark); of the
    words for infilling (each span becomes one mask token); of the blocks for permutation (of sentences) and rotation
    (to a random first token). The default is mBART's (Liu et al., TACL 2020); BART has {infilling: 0.3, permutation:
    1}.
    poisson_lambda: the mean number of words that a mask token of infilling replaces.
    block_tokens: noise is drawn over blocks of consecutive sentences of at most this many tokens (512 in the paper);
    the training's max_length by default. A block has sentences of one document, if the corpus has documents.
    """

    kind: Literal["denoising"] = "denoising"
    noises: dict[NoiseName, Share] = Field(default_factory=_default_noises)
    poisson_lambda: Annotated[float, Field(ge=0.1, le=1000)] = 3.5
    block_tokens: Annotated[int, Field(ge=4, le=MAX_SEQUENCE_LENGTH)] | None = None

    needs_mask = True
    denoises = True
    draws_blocks = True
    sampled_as = "decoder"
    samples = True
    samples_targets = True

    @property
    def longest_block(self) -> int | None:
        return self.block_tokens

    @model_validator(mode="after")
    def _shares_add_up(self) -> DenoisingSettings:
        masked, deleted = self.noises.get("masking", 0.0), self.noises.get("deletion", 0.0)
        if masked + deleted > 1.0:
            raise ValueError(f"noises: masking {masked} and deletion {deleted} add up to more than 1")
        return self


# The inputs of masking, and those that are pairs of segments.
MaskedInput = Literal["sentences", "segment-pair", "sentence-pair", "full-sentences", "doc-sentences"]
PAIRED_INPUTS: frozenset[MaskedInput] = frozenset({"segment-pair", "sentence-pair"})


class MaskedSettings(AnyObjective):
    """BERT's masking (Devlin et al. 2019, section 3.1), on the inputs that RoBERTa's authors compare (Liu et al. 2019,
    section 4.2).

    share: the fraction of an input's tokens to predict, at least one token. masked, random: the fraction of these
    that becomes the mask token, or a random token.
    input: `sentences` are single lines. All others need a corpus with documents: `segment-pair`, two segments of
    sentences of one document or of two, together up to max_length tokens; `sentence-pair`, the same with two sentences;
    `full-sentences`, as many consecutive sentences as fit into max_length, across documents, with a separator between
    these; `doc-sentences`, the same within one document.
    next_sentence: whether a second head predicts if the second segment follows the first, as it does in half of the
    pairs; by default it does for pairs. The model is then transformers' BertForPreTraining.
    short_inputs: the fraction of segment pairs that are filled to a random length only, for tasks with short inputs.
    sentences_per_document: for `sentences`: half of the lines are read this many at a time, for tasks whose inputs are
    longer than the upstream sentences.
    memory_tokens: for `doc-sentences`, on a model of the family `branched`: how many states of the document's earlier
    blocks each layer reads, those of the same layer (ERNIE 3; Sun et al., 2021, section 3.1).
    static_copies: how many times the text is masked before training: an epoch reuses the masks (and pairs) of the epoch
    this many epochs earlier. By default every epoch draws new ones.
    units: what is hidden as a whole, by stages (ERNIE; Sun et al., 2019, section 3.2); tokens by default. Generators
    are trained with hidden tokens.
    phrases, entities: the corpus's fields of kind spans with these units. By default phrases are collocations of the
    corpus (Mikolov et al., 2013, equation 6), and entities are runs of capitalised words.
    """

    kind: Literal["masked"] = "masked"
    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.15
    masked: Share = 0.8
    random: Share = 0.1
    input: MaskedInput = "sentences"
    next_sentence: bool | None = None
    short_inputs: Share = 0.1
    sentences_per_document: Count = 1
    units: tuple[UnitStage, ...] = ()
    phrases: str | None = None
    entities: str | None = None
    static_copies: Count | None = None
    memory_tokens: MemoryTokens = 0

    needs_mask = True
    samples_targets = True
    writes = False

    @property
    def needs_documents(self) -> bool:  # type: ignore[override]
        return self.input != "sentences"

    @property
    def predicts_next(self) -> bool:  # type: ignore[override]
        paired = self.input in PAIRED_INPUTS
        return paired if self.next_sentence is None else self.next_sentence

    @property
    def head(self) -> str:  # type: ignore[override]
        return "tokens and next sentence" if self.predicts_next else "tokens"

    @property
    def recurrent(self) -> bool:
        return self.memory_tokens > 0

    @model_validator(mode="after")
    def _consistent(self) -> MaskedSettings:
        if self.masked + self.random > 1.0:
            raise ValueError(f"masked {self.masked} and random {self.random} add up to more than 1")
        if self.next_sentence and self.input not in PAIRED_INPUTS:
            raise ValueError(f"next_sentence needs `input: segment-pair` or `sentence-pair`, not {self.input}")
        if self.sentences_per_document > 1 and self.input != "sentences":
            raise ValueError("sentences_per_document joins the lines of `input: sentences`: leave it out")
        if self.short_inputs != type(self).model_fields["short_inputs"].default and self.input != "segment-pair":
            raise ValueError("short_inputs applies to segment pairs only: write `input: segment-pair`")
        if self.memory_tokens and self.input != "doc-sentences":
            raise ValueError("memory_tokens needs earlier blocks of a document: write `input: doc-sentences`")
        return self

    @model_validator(mode="after")
    def _stages_in_order(self) -> MaskedSettings:
        steps = [stage.step for stage in self.units]
        if steps and (steps[0] or steps != sorted(set(steps))):
            raise ValueError("units: the first stage must have step 0, and steps must increase")
        if steps and self.sentences_per_document > 1:
            raise ValueError("units applies to single lines, which sentences_per_document joins: leave out one of them")
        hidden = {name for stage in self.units for name in stage.frequencies}
        for name, field in (("phrase", self.phrases), ("entity", self.entities)):
            if field is not None and name not in hidden:
                raise ValueError(f"'{field}' has units that no stage of units hides: add a stage with `{name}`")
        return self

    @property
    def last_change(self) -> int:
        return max(self.from_step, *(stage.step for stage in self.units), 0)


class LeftToRightSettings(AnyObjective):
    """A causal language model of an encoder (Devlin et al. 2019, section 5.1, "LTR & No NSP"): each token is predicted
    from those before it, also in finetuning. The first state sees only the first token, so texts are classified with a
    head of kind bilstm.

    input: as in `masked`, without pairs.
    """

    kind: Literal["left-to-right"] = "left-to-right"
    input: Literal["sentences", "full-sentences", "doc-sentences"] = "sentences"

    writes = False
    one_sided = True

    @property
    def needs_documents(self) -> bool:  # type: ignore[override]
        return self.input != "sentences"


class CausalSettings(AnyObjective):
    """Causal language modelling (Radford et al., 2019, section 2).

    packed: whether lines are concatenated, with `separator` between them, and cut into blocks of `block_tokens`, as for
    GPT-2; if not, each line is an example.
    block_tokens: the length of a block; the training's max_length by default.
    separator: the role of the special token between lines.
    memory_tokens: as for `masked`; blocks are then of one document each, of a corpus with documents.
    """

    kind: Literal["causal"] = "causal"
    packed: bool = True
    block_tokens: Annotated[int, Field(ge=4, le=MAX_SEQUENCE_LENGTH)] | None = None
    separator: Literal["eos", "bos"] = "eos"
    memory_tokens: MemoryTokens = 0

    continues = True

    @property
    def needs_documents(self) -> bool:  # type: ignore[override]
        return self.recurrent

    @property
    def recurrent(self) -> bool:
        return self.memory_tokens > 0

    @model_validator(mode="after")
    def _remembers_blocks(self) -> CausalSettings:
        if self.memory_tokens and not self.packed:
            raise ValueError("memory_tokens needs earlier blocks of a document: leave out `packed: false`")
        return self

    @property
    def longest_block(self) -> int | None:
        return self.block_tokens

    def after(self, pretrained: Sequence[AnyObjective]) -> Self:
        """The settings with the separator that the model was pretrained with."""
        separators = [each.separator for each in pretrained if isinstance(each, CausalSettings)]
        return self.model_copy(update={"separator": separators[0]}) if separators else self


_Pretraining: TypeAlias = (
    TranslationSettings
    | DenoisingSettings
    | MaskedSettings
    | LeftToRightSettings
    | MaskedEntitiesSettings
    | KnowledgeTextSettings
    | CausalSettings
    | PermutationSettings
    | MultitaskMaskedSettings
    | MaskedSeq2SeqSettings
    | DialogueSettings
    | CapitalisationSettings
    | TokenDocumentSettings
    | ReorderingSettings
    | DistanceSettings
    | DiscourseSettings
    | RelevanceSettings
)
ObjectiveSettings = Annotated[_Pretraining, Field(discriminator="kind")]
# The kinds of pretraining of decoders alone.
CONTINUING_KINDS = frozenset(each.model_fields["kind"].default for each in get_args(_Pretraining) if each.continues)
