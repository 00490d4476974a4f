"""What a family says of its models: sides, tables, counts, and the special tokens around a sequence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from subgraft.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from subgraft.config.base import SideName
    from subgraft.vocabulary.tokenizer import Tokenizer

Config: TypeAlias = Mapping[str, Any]


class Parameters(NamedTuple):
    """trained: those that a whole training changes; the rest are fixed, as Marian's positions are."""

    total: int
    trained: int


class TableSize(NamedTuple):
    """Numbers in one tensor of a model's tables, and the sides it belongs to; none where nothing reads it."""

    sides: frozenset[SideName]
    numbers: int


class Projection(NamedTuple):
    """The linear maps of attention and feed-forward layers that end in one name, so many `times` in a model.

    inputs, outputs: of each.
    """

    name: str
    inputs: int
    outputs: int
    times: int


@dataclass(frozen=True)
class Side:
    """One side of a model, as it is: these are the model's own modules and tensors, not copies.

    input: table [V, d].  output: projection [V, d], None on the encoder.  bias: what is added to the logits, [1, V] or
    [V], where there is one.  tied: the projection is the input table itself.  padding_id: the row that no gradient
    reaches.  transform: what top hidden states go through before the projection, where there is anything.
    """

    name: SideName
    input: nn.Embedding
    output: nn.Linear | None
    bias: Tensor | None
    tied: bool
    padding_id: int | None
    transform: Callable[[Tensor], Tensor] | None = None


@dataclass(frozen=True)
class Tables:
    """What a side gets: input [V, d]; output [V, d], None where it is the input table; bias [V], where there is one."""

    input: Tensor
    output: Tensor | None
    bias: Tensor | None
    padding_id: int | None


@dataclass(frozen=True)
class SequenceFormat:
    """Token ids: what follows every source and every target sentence, what the decoder and what a source begin with.

    target_beginning: the label that every target begins with, where there is one: it is predicted, and forced where a
    text is generated (forced_bos_token_id of transformers).

    A decoder alone has no source: its sequence is the start, the text and the target's ending.
    """

    source_ending: tuple[int, ...]
    target_ending: tuple[int, ...]
    start: int
    source_beginning: tuple[int, ...] = ()
    target_beginning: int | None = None

    @property
    def target_begins(self) -> int:
        """How many labels come before those of the target sentence."""
        return 0 if self.target_beginning is None else 1

    @property
    def around(self) -> int:
        """How many special tokens stand around a sentence, on the side that has more of them."""
        return max(len(self.source_beginning) + len(self.source_ending), self.target_begins + len(self.target_ending))


def start_role(config: Config, default: str) -> str:
    """The role of the token that decoding starts with by the configuration; `default` where it does not say.

    Padding comes first where ids have several roles: models that start with padding pad with another model's end.
    """
    start = config.get("decoder_start_token_id")
    if start is None:
        return default
    roles = ("pad", "bos", "eos")
    return next((role for role in roles if config.get(f"{role}_token_id") == start), default)


def needed(tokenizer: Tokenizer, role: str, model: str) -> int:
    """The id of a special token. Raises UserError where the vocabulary has none. model: as a message names it."""
    names = {"bos": "the beginning of a sentence", "eos": "the end of a sentence", "pad": "padding"}
    if role not in tokenizer.special:
        raise UserError(f"the vocabulary has no token for {names[role]}, which {model} needs")
    return tokenizer.special[role]


def language_code(tokenizer: Tokenizer, language: str) -> int:
    """The id of a language's code: `en`, `en_XX` and `en-XX` all find en_XX, and `en` finds M2M100's __en__.

    Raises UserError where there is none.
    """
    wanted = language.replace("-", "_")
    for code, token in sorted(tokenizer.languages.items()):
        if code == wanted or code.strip("_").split("_")[0] == wanted:
            return token
    raise UserError(
        f"the vocabulary has no language code for '{language}'",
        hint=f"It has: {', '.join(sorted(tokenizer.languages)) or 'none'}.",
    )
