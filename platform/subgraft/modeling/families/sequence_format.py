"""The special tokens around sequences, and the language codes among them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from subgraft.base.errors import ArgumentError, UserError

if TYPE_CHECKING:
    from subgraft.config.corpora import Languages
    from subgraft.modeling.families.model_parts import Config
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# The prefixes of codes that name the target language before a source: >>fra<<, <2fr>. Decoders never generate them.
BEFORE_SOURCE = (">>", "<2")
# The marks of M2M-100, Marian and MADLAD-400 around a language's code: __fr__, >>fra<<, <2fr>.
_MARKED = re.compile(r"(?:__|>>|<2)(.+?)(?:__|<<|>)")
_MARKS = (("__", "__"), (">>", "<<"), ("<2", ">"))
# NLLB's codes: a language of three letters and its script.
_WITH_SCRIPT = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
# The codes of each language: ISO 639-1, ISO 639-3, and the code of its largest variety if published models use it.
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
_LANGUAGE_CODES = [frozenset(line.split()) for row in _CODES.strip().splitlines() for line in row.split("|")]


@dataclass(frozen=True)
class SequenceFormat:
    """The ids of the special tokens around a sequence.

    A decoder-only model has no source: its sequence is the start, the text and the target's ending.

    Attributes:
        source_ending: Tokens after every source.
        target_ending: Tokens after every target.
        start: The token that decoding starts with.
        source_beginning: Tokens before every source.
        target_beginning: The first label of every target, if any: it is predicted in training and forced in generation
            (forced_bos_token_id of transformers).
    """

    source_ending: tuple[int, ...]
    target_ending: tuple[int, ...]
    start: int
    source_beginning: tuple[int, ...] = ()
    target_beginning: int | None = None

    @property
    def target_begins(self) -> int:
        """The number of labels before those of the target text."""
        return 0 if self.target_beginning is None else 1

    @property
    def around(self) -> int:
        """The number of special tokens around a text, on the side with more of them."""
        return max(len(self.source_beginning) + len(self.source_ending), self.target_begins + len(self.target_ending))


def start_role(config: Config, default: str, another: str | None = None) -> str:
    """The role of the token that decoding starts with, according to a configuration.

    Padding takes precedence if an id has several roles.

    Args:
        config: config.json.
        default: The role if the configuration does not name a start token.
        another: The role if it names a token that is neither padding, beginning nor end; `default` if None.
    """
    start = config.get("decoder_start_token_id")
    if start is None:
        return default
    roles = ("pad", "bos", "eos")
    return next((role for role in roles if config.get(f"{role}_token_id") == start), another or default)


def required_token(tokenizer: Tokenizer, role: str, model: str) -> int:
    """The id of a special token. Raises UserError if the vocabulary has none. model: its name in messages."""
    names = {
        "bos": "the beginning of a sentence",
        "eos": "the end of a sentence",
        "pad": "padding",
        "unk": "what is unknown",
    }
    if role not in tokenizer.special:
        raise UserError(f"the vocabulary has no token for {names[role]}, which {model} needs")
    return tokenizer.special[role]


def unsupported_blocks_error(model_type: str) -> UserError:
    """The error for a model that cannot translate blocks."""
    return UserError(
        f"this {model_type} model has no token that ends blocks but not single sentences",
        hint="Translate documents with an mBART, in which a language code follows the last sentence.",
    )


def require_marked_targets(formats: Mapping[str, SequenceFormat], where: str) -> None:
    """Raises UserError if a model would write several target languages, whose formats these are, in the same way."""
    if len(formats) > 1 and len(set(formats.values())) == 1:
        what = f"this model has no language codes, so it cannot know whether to write {' or '.join(formats)}"
        raise UserError(what, where=where, hint="Take pairs into one language, or another model.")


class MissingCodeError(UserError):
    """A vocabulary has no code for the language."""

    language: str


def language_code(tokenizer: Tokenizer, language: str) -> int:
    """The id of a language's code: `en`, `eng` and `en-XX` match en_XX, and `en` also __en__, eng_Latn, >>eng<<, <2en>.

    Raises UserError if no code matches, or if several codes match (usually two scripts) and none of them exactly.
    """
    name = language.replace("-", "_")
    codes = {code: _MARKED.sub(r"\1", code) for code in sorted(tokenizer.languages)}
    exact = [code for code, plain in codes.items() if name in (code, plain)]
    codes_of_language = same_language(name)
    matches = exact or [code for code, plain in codes.items() if plain.split("_")[0] in codes_of_language]
    if len(matches) == 1 or exact:
        return tokenizer.languages[matches[0]]
    if matches:
        raise UserError(f"the vocabulary has several codes for '{language}'", hint=f"Name one: {', '.join(matches)}.")
    missing = MissingCodeError(
        f"the vocabulary has no language code for '{language}'", hint=f"It has: {', '.join(codes) or 'none'}."
    )
    missing.language = language
    raise missing


def new_code(tokenizer: Tokenizer, language: str) -> str:
    """A code for a language that the vocabulary lacks, in the form of its other codes: ukr_XX, __uk__, >>ukr<<.

    Raises UserError for a language that has a code already, and for a name that cannot become a code, such as a name
    without a script in an NLLB vocabulary.
    """
    from subgraft.subwords.vocabulary.tokenizer_description import LANGUAGE_CODE

    try:
        piece = tokenizer.pieces[language_code(tokenizer, language)]
    except MissingCodeError:
        pass
    else:
        raise UserError(f"the vocabulary has a code for '{language}' already: {piece}")
    name, codes = language.replace("-", "_"), sorted(tokenizer.languages)
    marks = next((marks for marks in _MARKS if all(code.startswith(marks[0]) for code in codes)), None)
    if marks is None and "_" not in name and not all(_WITH_SCRIPT.fullmatch(code) for code in codes):
        marks = "", "_XX"
    code = f"{marks[0]}{name}{marks[1]}" if marks else name
    if LANGUAGE_CODE.fullmatch(code) is None:
        example = next(iter(codes), "none")
        raise UserError(
            f"'{language}' is not a name for a language code", hint=f"Name it as the others are, such as {example}."
        )
    return code


def language_codes(source: Tokenizer, target: Tokenizer, languages: Languages | None) -> tuple[int, int]:
    """The ids of both languages' codes, each in its side's vocabulary. Raises UserError if one is missing."""
    pair = configured_languages(languages, source)
    return language_code(source, pair.source), language_code(target, pair.target)


def configured_languages(languages: Languages | None, tokenizer: Tokenizer) -> Languages:
    """The languages, which a model with language codes requires. Raises UserError if they are None."""
    if languages is None:
        raise ArgumentError(
            "this model has a code for each language, and no languages are named",
            where="languages",
            hint=f"Name those of source and target. Its codes: {', '.join(sorted(tokenizer.languages))}.",
        )
    return languages


def target_language_prefix(source: Tokenizer, languages: Languages | None, mark: str) -> tuple[int, ...]:
    """The target-language code with which sources begin; empty for a vocabulary without such codes.

    mark: the prefix of such codes. Raises UserError if the vocabulary has them and `languages` is None.
    """
    if not any(code.startswith(mark) for code in source.languages):
        return ()
    return (language_code(source, configured_languages(languages, source).target),)


def is_same_language(one: str, other: str) -> bool:
    """Whether two codes name one language, as `en`, `en_XX` and eng_Latn do; regions and scripts are not compared."""
    first, second = (code.replace("-", "_").split("_")[0].lower() for code in (one, other))
    return second in same_language(first)


def same_language(code: str) -> frozenset[str]:
    """All codes of a language: {fr, fra} for `fr`; only the code itself if it is unknown."""
    return frozenset({code}).union(*(codes for codes in _LANGUAGE_CODES if code in codes))
