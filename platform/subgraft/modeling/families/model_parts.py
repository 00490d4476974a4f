"""What a family says of its models: sides, tables, counts, and the special tokens around a sequence."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from subgraft.base.errors import ArgumentError, UserError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from subgraft.config.corpora import Languages
    from subgraft.config.settings_base import SideName
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer


Config: TypeAlias = Mapping[str, Any]

# What M2M-100, Marian and MADLAD-400 put around a language's code: __fr__, >>fra<<, <2fr>.
_MARKED = re.compile(r"(?:__|>>|<2)(.+?)(?:__|<<|>)")


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


def start_role(config: Config, default: str, another: str | None = None) -> str:
    """The role of the token that decoding starts with by the configuration; `default` where it does not say.

    another: where it says a token that is neither padding nor an end nor a beginning; `default` if None.

    Padding comes first where ids have several roles: models that start with padding pad with another model's end.
    """
    start = config.get("decoder_start_token_id")
    if start is None:
        return default
    roles = ("pad", "bos", "eos")
    return next((role for role in roles if config.get(f"{role}_token_id") == start), another or default)


def needed(tokenizer: Tokenizer, role: str, model: str) -> int:
    """The id of a special token. Raises UserError where the vocabulary has none. model: as a message names it."""
    names = {
        "bos": "the beginning of a sentence",
        "eos": "the end of a sentence",
        "pad": "padding",
        "unk": "what is unknown",
    }
    if role not in tokenizer.special:
        raise UserError(f"the vocabulary has no token for {names[role]}, which {model} needs")
    return tokenizer.special[role]


def language_code(tokenizer: Tokenizer, language: str) -> int:
    """The id of a language's code: `en`, `eng` and `en-XX` find en_XX, and `en` also __en__, eng_Latn, >>eng<<, <2en>.

    Raises UserError where there is none, and where a language has several (two scripts, as a rule) and none is named.
    """
    wanted = language.replace("-", "_")
    codes = {code: _MARKED.sub(r"\1", code) for code in sorted(tokenizer.languages)}
    named = [code for code, plain in codes.items() if wanted in (code, plain)]
    same = same_language(wanted)
    found = named or [code for code, plain in codes.items() if plain.split("_")[0] in same]
    if len(found) == 1 or named:
        return tokenizer.languages[found[0]]
    if found:
        raise UserError(f"the vocabulary has several codes for '{language}'", hint=f"Name one: {', '.join(found)}.")
    raise UserError(
        f"the vocabulary has no language code for '{language}'", hint=f"It has: {', '.join(codes) or 'none'}."
    )


def language_codes(source: Tokenizer, target: Tokenizer, languages: Languages | None) -> tuple[int, int]:
    """Ids of the codes of both languages, each in its side's vocabulary. Raises UserError where there are none."""
    pair = configured_languages(languages, source)
    return language_code(source, pair.source), language_code(target, pair.target)


def configured_languages(languages: Languages | None, tokenizer: Tokenizer) -> Languages:
    """The languages that a model with language codes needs. Raises UserError where they are not given."""
    if languages is None:
        raise ArgumentError(
            "this model has a code for each language, and nothing says which languages are meant",
            where="languages",
            hint=f"Name those of source and target. Its codes: {', '.join(sorted(tokenizer.languages))}.",
        )
    return languages


# What codes begin with that name the target's language in front of a source: >>fra<<, <2fr>. No decoder writes them.
BEFORE_SOURCE = (">>", "<2")


def target_named(source: Tokenizer, languages: Languages | None, mark: str) -> tuple[int, ...]:
    """What sources begin with in a model that is told its target language there; nothing in one that is not.

    mark: what such codes begin with. Raises UserError where the vocabulary has such codes, and no language is given.
    """
    if not any(code.startswith(mark) for code in source.languages):
        return ()
    return (language_code(source, configured_languages(languages, source).target),)


# Codes of one language: two letters (ISO 639-1), three (ISO 639-3), and what published models say for either.
#
# A language a line: its two letters, its three, then those of its largest variety, where models name that.
_CODES = """
af afr | am amh | ar ara arb | as asm | ast ast | az aze azj | ba bak | be bel | bg bul | bn ben | bo bod | br bre
bs bos | ca cat | cs ces | cy cym | da dan | de deu | el ell | en eng | eo epo | es spa | et est ekk | eu eus
fa fas pes | ff ful fuv | fi fin | fr fra | fy fry | ga gle | gd gla | gl glg | gu guj | ha hau | he heb | hi hin
hr hrv | ht hat | hu hun | hy hye | id ind | ig ibo | is isl | it ita | ja jpn | jv jav | ka kat | kk kaz | km khm
kn kan | ko kor | ku kur kmr | ky kir | la lat | lb ltz | lg lug | ln lin | lo lao | lt lit | lv lav lvs
mg mlg plt | mi mri | mk mkd | ml mal | mn mon khk | mr mar | ms msa zsm | mt mlt | my mya | nb nob | ne nep npi
nl nld | nn nno | no nor nob | ny nya | oc oci | om orm gaz | or ori ory | pa pan | pl pol | ps pus pbt | pt por
qu que quy | ro ron | ru rus | sd snd | si sin | sk slk | sl slv | sn sna | so som | sq sqi als | sr srp | ss ssw
st sot | su sun | sv swe | sw swa swh | ta tam | te tel | tg tgk | th tha | ti tir | tk tuk | tl tgl | tn tsn
tr tur | tt tat | ug uig | uk ukr | ur urd | uz uzb uzn | vi vie | wo wol | xh xho | yi yid ydd | yo yor
zh zho cmn | zu zul
"""
_SETS = [frozenset(line.split()) for row in _CODES.strip().splitlines() for line in row.split("|")]


def same_language(code: str) -> frozenset[str]:
    """All codes of the language that this one stands for: `fr` and `fra`; itself alone where it is not known."""
    return frozenset({code}).union(*(codes for codes in _SETS if code in codes))
