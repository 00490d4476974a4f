"""BERT's and RoBERTa's masking, with ERNIE's units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Protocol

from pydantic import Field, model_validator

from subgraft.base.limits import MAX_COUNT
from subgraft.config.settings_base import Count, MemoryTokens, Settings, Share
from subgraft.training.objectives.objective import AnyObjective

if TYPE_CHECKING:
    from subgraft.training.objectives.compute.interface import Objective, ObjectiveInputs


UnitName = Literal["piece", "word", "phrase", "entity"]
_Frequency = Annotated[float, Field(ge=0)]
# The inputs of masking, and those that are pairs of segments.
MaskedInput = Literal["sentences", "segment-pair", "sentence-pair", "full-sentences", "doc-sentences"]
# The default fraction of short pairs.
SHORT_INPUTS = 0.1
PAIRED_INPUTS: frozenset[MaskedInput] = frozenset({"segment-pair", "sentence-pair"})


class UnitStage(Settings):
    """The units that are masked whole from a step on: each sentence has units of one kind, drawn by these frequencies.

    step: the number of updates before it applies.
    piece: frequency of single tokens.
    word: frequency of words.
    phrase: frequency of phrases, and of the words outside of them.
    entity: frequency of entities, and of the words outside of them.
    """

    step: Annotated[int, Field(ge=0, le=MAX_COUNT)] = 0
    piece: _Frequency = 0.0
    word: _Frequency = 0.0
    phrase: _Frequency = 0.0
    entity: _Frequency = 0.0

    @property
    def frequencies(self) -> dict[UnitName, float]:
        """The share of each unit that occurs."""
        named: dict[UnitName, float] = {
            "piece": self.piece,
            "word": self.word,
            "phrase": self.phrase,
            "entity": self.entity,
        }
        total = sum(named.values())
        return {name: frequency / total for name, frequency in named.items() if frequency}

    @model_validator(mode="after")
    def _something(self) -> UnitStage:
        if not self.frequencies:
            raise ValueError("give at least one of piece, word, phrase, entity")
        return self


class HidesTokens(Protocol):
    """Settings of an objective that hides tokens."""

    @property
    def share(self) -> float: ...
    @property
    def masked(self) -> float: ...
    @property
    def random(self) -> float: ...


def require_fractions(settings: HidesTokens) -> None:
    """Raise ValueError for more masked and random tokens than hidden ones."""
    if settings.masked + settings.random > 1.0:
        raise ValueError(f"masked {settings.masked} and random {settings.random} add up to more than 1")


def require_segments(chosen: MaskedInput, next_sentence: bool | None, short_inputs: float) -> None:
    """Raise ValueError for settings of pairs of segments on another input."""
    if next_sentence and chosen not in PAIRED_INPUTS:
        raise ValueError(f"next_sentence needs `input: segment-pair` or `sentence-pair`, not {chosen}")
    if short_inputs != SHORT_INPUTS and chosen != "segment-pair":
        raise ValueError("short_inputs applies to segment pairs only: write `input: segment-pair`")


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
    short_inputs: Share = SHORT_INPUTS
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
        return self.input in PAIRED_INPUTS if self.next_sentence is None else self.next_sentence

    @property
    def head(self) -> str:  # type: ignore[override]
        return "tokens and next sentence" if self.predicts_next else "tokens"

    @property
    def recurrent(self) -> bool:
        return self.memory_tokens > 0

    @model_validator(mode="after")
    def _consistent(self) -> MaskedSettings:
        require_fractions(self)
        require_segments(self.input, self.next_sentence, self.short_inputs)
        if self.sentences_per_document > 1 and self.input != "sentences":
            raise ValueError("sentences_per_document joins the lines of `input: sentences`: leave it out")
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

    def pretraining(self, request: ObjectiveInputs) -> Objective:
        from subgraft.training.objectives.compute.masked import MaskedObjective, masked_text
        from subgraft.training.objectives.compute.masked_inputs import blocks_of_documents
        from subgraft.training.stream_memory import with_memory

        if not self.recurrent:
            return MaskedObjective.of(self, request)
        inputs, first_blocks = blocks_of_documents(self, request)
        objective = MaskedObjective(request.bundle, masked_text(self, request, inputs), None, request.training)
        return with_memory(objective, first_blocks, self.memory_tokens, request)
