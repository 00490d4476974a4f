# mypy: allow-untyped-calls
"""Vocabularies as llama.cpp's files (GGUF) have them: pieces, their types, scores or merges, and how text is split.

llama.cpp has three kinds: byte-level BPE, which splits text by a rule that it knows by name; SentencePiece's BPE
with bytes; and SentencePiece's unigram model without bytes. Facts are from its src/llama-vocab.cpp (October 2026).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, processors

from subgraft.base.errors import UserError
from subgraft.base.security.text_growth import component_steps
from subgraft.subwords.vocabulary.as_sentencepiece import normaliser_settings, piece_scores
from subgraft.subwords.vocabulary.directory import CHAT_TEMPLATE, GENERIC_CLASS, Source
from subgraft.subwords.vocabulary.entry import SPACE_MARK, Mark
from subgraft.subwords.vocabulary.sentencepiece_model import (
    BPE,
    BYTE,
    CONTROL,
    NORMAL,
    UNIGRAM,
    UNKNOWN,
    USER_DEFINED,
    convert,
)
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.tokenizer_description import merges_of

UNUSED = 5
BYTE_LEVEL, WITH_BYTES, WITHOUT_BYTES = "gpt2", "llama", "t5"  # its names of the kinds
ROLES = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding", "sep": "seperator", "mask": "mask"}
NOT_NORMALISED = "text that is not in Unicode's form NFC is not normalised"
# Flags of added tokens, and what llama.cpp does without them.
_FLAGS = {
    "lstrip": "white space before a token is not removed",
    "rstrip": "white space after a token is not removed",
    "single_word": "a token is found within words too",
    "normalized": "a token is found only as it is spelled, not in normalised text",
}
_HINT = (
    "Export with `--to transformers` instead, or learn a vocabulary that llama.cpp can use: of `--kind byte-level-bpe` "
    "or `--like` a model that it runs."
)
_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_ENDS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_BEFORE = r"[^\r\n\p{L}\p{N}]?"
_ALL_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
_BY_GPT2 = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}


def _by(pattern: str) -> tuple[Mapping[str, Any], ...]:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return split, _ALL_BYTES


def _like_llama_3(digits: str) -> tuple[Mapping[str, Any], ...]:
    return _by(rf"{_CONTRACTIONS}|{_BEFORE}\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_ENDS}")


def _by_case(contractions: str, digits: str) -> tuple[Mapping[str, Any], ...]:
    words = f"{_BEFORE}{_UPPER}*{_LOWER}+{contractions}|{_BEFORE}{_UPPER}+{_LOWER}*{contractions}"
    return _by(rf"{words}|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_ENDS}")


@dataclass(frozen=True)
class Splitting:
    """How llama.cpp splits a text before byte-level BPE.

    Attributes:
        name: Its name of the rule.
        steps: The same as pre-tokenizers of tokenizer.json.
        whole_words: Whether a word that is a token is never segmented (`ignore_merges` in tokenizer.json).
    """

    name: str
    steps: tuple[Mapping[str, Any], ...]
    whole_words: bool = False


SPLITTINGS = (
    Splitting("gpt-2", (_BY_GPT2,)),
    Splitting("smollm", ({"type": "Digits", "individual_digits": True}, _BY_GPT2)),
    Splitting("llama-bpe", _like_llama_3(r"\p{N}{1,3}"), whole_words=True),
    Splitting("smaug-bpe", _like_llama_3(r"\p{N}{1,3}")),
    Splitting("qwen2", _like_llama_3(r"\p{N}")),
    Splitting(
        "qwen35",
        _by(rf"{_CONTRACTIONS}|{_BEFORE}[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_ENDS}"),
    ),
    Splitting("gpt-4o", _by_case(f"{_CONTRACTIONS}?", r"\p{N}{1,3}")),
    Splitting("tekken", _by_case("", r"\p{N}"), whole_words=True),
)


@dataclass(frozen=True)
class LlamaCppVocabulary:
    """A vocabulary in llama.cpp's form.

    Attributes:
        kind: One of its three kinds.
        splitting: Its name of the rule that splits text.
        tokens, types: By id.
        scores: By id, for vocabularies of SentencePiece.
        merges: In the order of ranks, for byte-level BPE.
        settings: Further entries under `tokenizer.ggml`.
        limits: What is segmented differently.
        lost_flags: The added tokens with each flag that llama.cpp lacks.
    """

    kind: str
    splitting: str
    tokens: Sequence[str]
    types: Sequence[int]
    scores: Sequence[float] = ()
    merges: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    limits: tuple[str, ...] = ()
    lost_flags: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def all_limits(self) -> tuple[str, ...]:
        """The limits, and a line for each lost flag."""
        lines = []
        for flag, tokens in self.lost_flags.items():
            named = " ".join(tokens[:5]) + (f" and {len(tokens) - 5} more" if len(tokens) > 5 else "")
            lines.append(f"{_FLAGS[flag]} (the flag {flag} of {named})")
        return (*self.limits, *lines)


def numbered(rows: int, end: int) -> LlamaCppVocabulary:
    """A vocabulary of numbers in place of pieces, for ids alone. end: the id that ends an output."""
    special = {"bos_token_id": end, "eos_token_id": end, "add_bos_token": False}
    names = [*map(name_of, range(rows))]
    # llama.cpp loads no byte-level BPE without merges.
    return LlamaCppVocabulary(
        BYTE_LEVEL, "gpt-2", names, [NORMAL] * rows, merges=[f"{names[0]} {names[0]}"], settings=special
    )


def name_of(token: int) -> str:
    """The name of a token in a numbered vocabulary; no name is in a sequence of others."""
    return f"<{token}>"


def for_llama_cpp(tokenizer: Tokenizer, rows: int) -> LlamaCppVocabulary:
    """The tokenizer in llama.cpp's form, with a token for each of a model's `rows`.

    Raises UserError for what llama.cpp cannot express.
    """
    kind = tokenizer.specification["model"]["type"]
    if tokenizer.mark is Mark.BYTELEVEL and kind == "BPE":
        return _byte_level(tokenizer, rows)
    if tokenizer.mark is Mark.SENTENCEPIECE:
        return _of_sentencepiece(tokenizer, rows)
    raise UserError(f"llama.cpp has no {kind} vocabularies of language models", hint=_HINT)


def _byte_level(tokenizer: Tokenizer, rows: int) -> LlamaCppVocabulary:
    specification = tokenizer.specification
    model = specification["model"]
    for name in ("continuing_subword_prefix", "end_of_word_suffix", "dropout"):
        if model.get(name):
            raise UserError(f"llama.cpp's byte-level BPE has no {name.replace('_', ' ')}", hint=_HINT)
    normaliser = [step["type"] for step in component_steps(specification.get("normalizer"))]
    if set(normaliser) - {"NFC"}:
        raise UserError(f"llama.cpp's byte-level BPE does not normalise text ({', '.join(normaliser)})", hint=_HINT)
    splitting = _splitting(tokenizer, model)
    merges = [f"{left} {right}" for left, right in merges_of(model)]
    tokens, types = _tokens(tokenizer, rows)
    limits, lost = ((NOT_NORMALISED,) if normaliser else ()), _lost_flags(specification, bool(normaliser))
    return LlamaCppVocabulary(BYTE_LEVEL, splitting.name, tokens, types, merges=merges, limits=limits, lost_flags=lost)


def _splitting(tokenizer: Tokenizer, model: Mapping[str, Any]) -> Splitting:
    steps = component_steps(tokenizer.specification.get("pre_tokenizer"))
    plain = tuple({name: value for name, value in step.items() if name != "trim_offsets"} for step in steps)
    same = [splitting for splitting in SPLITTINGS if splitting.steps == plain]
    if not same:
        rules = ", ".join(json.dumps(step, ensure_ascii=False) for step in plain)
        raise UserError(f"llama.cpp has no rule that splits text as this vocabulary does: {rules}", hint=_HINT)
    wanted = bool(model.get("ignore_merges"))
    exact = [splitting for splitting in same if splitting.whole_words is wanted]
    if exact or _merges_suffice(tokenizer):
        return (exact or same)[0]
    segments = "segments" if wanted else "never segments"
    what = f"llama.cpp's rule {same[0].name} {segments} words that are tokens, and there are tokens that no merges form"
    raise UserError(what, hint=_HINT)


def _merges_suffice(tokenizer: Tokenizer) -> bool:
    """Whether the merges form every ordinary piece, so that `ignore_merges` changes nothing."""
    specification = tokenizer.specification
    specification["model"]["ignore_merges"] = False
    model = tokenizers.Tokenizer.from_str(json.dumps(specification)).model
    return all(len(model.tokenize(tokenizer.pieces[i])) == 1 for i in tokenizer.ordinary_ids.tolist())


def _of_sentencepiece(tokenizer: Tokenizer, rows: int) -> LlamaCppVocabulary:
    specification = tokenizer.specification
    model, settings = specification["model"], normaliser_settings(specification)
    unigram, with_bytes = model["type"] == "Unigram", bool(tokenizer.byte_ids)
    components = [specification.get("normalizer"), specification.get("pre_tokenizer")]
    steps = [step for component in components for step in component_steps(component)]
    scores = piece_scores(tokenizer, model)
    if settings is None or scores is None:
        kinds = ", ".join(step["type"] for step in steps)
        raise UserError(f"llama.cpp cannot treat text as this vocabulary does ({kinds})", hint=_HINT)
    if unigram and with_bytes:
        raise UserError("llama.cpp's unigram vocabularies cannot write unknown characters in bytes", hint=_HINT)
    table, joins_spaces = settings.get("precompiled_charsmap"), settings["remove_extra_whitespaces"]
    if not unigram and not with_bytes:
        raise UserError("llama.cpp's BPE vocabularies of SentencePiece must have the 256 bytes", hint=_HINT)
    if not unigram and (table or joins_spaces):
        what = "replace characters" if table else "join spaces"
        raise UserError(f"llama.cpp's BPE vocabularies of SentencePiece cannot {what}", hint=_HINT)
    further: dict[str, Any] = {"add_space_prefix": settings["add_dummy_prefix"]}
    if unigram:
        further["remove_extra_whitespaces"] = joins_spaces
        further |= {"precompiled_charsmap": bytes(table)} if table else {}
    tokens, types = _tokens(tokenizer, rows)
    composes = not table and any(step["type"] == "NFC" for step in steps)
    limits, lost = ((NOT_NORMALISED,) if composes else ()), _lost_flags(specification, bool(table or composes))
    kind = WITHOUT_BYTES if unigram else WITH_BYTES
    by_id = [float(scores.get(i, 0.0)) if kind_of == NORMAL else 0.0 for i, kind_of in enumerate(types)]
    return LlamaCppVocabulary(kind, "default", tokens, types, by_id, settings=further, limits=limits, lost_flags=lost)


def _tokens(tokenizer: Tokenizer, rows: int) -> tuple[list[str], list[int]]:
    """Pieces and types; rows without a piece get an unused name. Raises UserError if two tokens are spelled alike."""
    bytes_of = tokenizer.byte_ids.values() if tokenizer.mark is Mark.SENTENCEPIECE else ()
    types = dict.fromkeys(tokenizer.special_ids, CONTROL) | dict.fromkeys(tokenizer.symbols, USER_DEFINED)
    types |= dict.fromkeys(bytes_of, BYTE)
    unknown = tokenizer.special.get("unk")
    if unknown is not None and tokenizer.mark is Mark.SENTENCEPIECE:
        types[unknown] = UNKNOWN
    tokens = [*tokenizer.pieces, *[""] * (rows - len(tokenizer))]
    if tokenizer.mark is Mark.SENTENCEPIECE:  # symbols are searched in the text before its spaces are marked
        tokens = [piece.replace(SPACE_MARK, " ") if i in tokenizer.symbols else piece for i, piece in enumerate(tokens)]
    named = [piece or f"[PAD{i}]" for i, piece in enumerate(tokens)]
    if len(set(named)) < len(named):
        seen: set[str] = set()
        double = next(piece for piece in named if piece in seen or seen.add(piece))  # type: ignore[func-returns-value]
        raise UserError(f"two tokens are spelled {double!r:.60}, which llama.cpp does not allow")
    return named, [types.get(i, NORMAL) if piece else UNUSED for i, piece in enumerate(tokens)]


def _lost_flags(specification: Mapping[str, Any], normalises: bool) -> dict[str, list[str]]:
    """The added tokens with each flag that has an effect here and none in llama.cpp."""
    added = specification["added_tokens"]
    lost = {flag: [token["content"] for token in added if token[flag]] for flag in _FLAGS}
    return {flag: tokens for flag, tokens in lost.items() if tokens and (normalises or flag != "normalized")}


def source_of(settings: Mapping[str, Any]) -> Source:
    """The tokenizer of a GGUF's entries under `tokenizer.`. Raises UserError for what cannot be read."""
    entries = {name.removeprefix("ggml."): value for name, value in settings.items()}
    kind, tokens = entries.get("model"), [str(token) for token in entries["tokens"]]
    types = [int(each) for each in entries.get("token_type", [NORMAL] * len(tokens))]
    while types and types[-1] == UNUSED:
        types.pop()
    tokens = tokens[: len(types)]
    if len(entries["tokens"]) < len(types) or kind not in (BYTE_LEVEL, WITH_BYTES, WITHOUT_BYTES):
        raise UserError(f"a vocabulary of llama.cpp's kind {kind!r:.20}, which is not supported")
    ids = {role: int(entries[f"{name}_token_id"]) for role, name in ROLES.items() if f"{name}_token_id" in entries}
    ids = {role: i for role, i in ids.items() if i < len(tokens)}
    if kind == BYTE_LEVEL:
        built = _built_byte_level(entries, tokens, types)
    else:
        built = convert(_model(entries, tokens, types, kind == WITHOUT_BYTES), prefix_once=kind == WITH_BYTES)
        if kind == WITH_BYTES and not entries.get("add_space_prefix", True):
            # As Gemma's: spaces are marked before symbols, of which some are several marks, are searched.
            built.normalizer, built.pre_tokenizer = normalizers.Replace(" ", SPACE_MARK), None
    begins = entries.get("add_bos_token", kind == WITH_BYTES) and "bos" in ids
    ends = entries.get("add_eos_token", kind == WITHOUT_BYTES) and "eos" in ids
    if begins or ends:
        added = [role for role, adds in (("bos", begins), ("eos", ends)) if adds]
        single = [tokens[ids["bos"]]] * begins + ["$A"] + [tokens[ids["eos"]]] * ends
        named = [(tokens[ids[role]], ids[role]) for role in added]
        built.post_processor = processors.TemplateProcessing(single=single, special_tokens=named)
    config: dict[str, Any] = {"tokenizer_class": GENERIC_CLASS}
    config |= {f"{role}_token": tokens[i] for role, i in ids.items()}
    if isinstance(template := entries.get(CHAT_TEMPLATE), str):
        config[CHAT_TEMPLATE] = template
    return Source(built.to_str(), config)


def _built_byte_level(entries: Mapping[str, Any], tokens: list[str], types: list[int]) -> tokenizers.Tokenizer:
    splitting = next((each for each in SPLITTINGS if each.name == entries.get("pre")), None)
    if splitting is None:
        known = ", ".join(each.name for each in SPLITTINGS)
        raise UserError(f"the vocabulary splits text by {entries.get('pre')!r:.40}; supported are {known}")
    parts = [str(merge).split(" ") for merge in entries.get("merges", [])]
    if any(len(each) != 2 for each in parts):
        raise UserError("a merge of the vocabulary is not a pair")
    pairs = [(left, right) for left, right in parts]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    if len(vocabulary) < len(tokens):
        raise UserError("the vocabulary has a token twice")
    missing = next((pair for pair in pairs if not {*pair, "".join(pair)} <= vocabulary.keys()), None)
    if missing is not None:
        raise UserError(f"a merge of the vocabulary is of or to a token that it lacks: {' '.join(missing)!r:.60}")
    model = models.BPE(vocabulary, pairs, ignore_merges=splitting.whole_words)
    built = tokenizers.Tokenizer(model)
    steps = {"type": "Sequence", "pretokenizers": [{"trim_offsets": True, **step} for step in splitting.steps]}
    built = tokenizers.Tokenizer.from_str(json.dumps({**json.loads(built.to_str()), "pre_tokenizer": steps}))
    built.decoder = decoders.ByteLevel()
    # Special tokens and user-defined symbols, whose ids do not change.
    kinds = zip(tokens, types, strict=True)
    marked = [(token, kind) for token, kind in kinds if kind in (CONTROL, UNKNOWN, USER_DEFINED)]
    built.add_tokens([AddedToken(token, special=kind != USER_DEFINED, normalized=False) for token, kind in marked])
    return built


def _model(entries: Mapping[str, Any], tokens: list[str], types: list[int], unigram: bool) -> bytes:
    """SentencePiece's model of the same pieces."""
    from sentencepiece import sentencepiece_model_pb2

    scores = [float(score) for score in entries.get("scores", [])][: len(tokens)]
    if len(scores) < len(tokens):
        raise UserError("a vocabulary of SentencePiece without a score for each token")
    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    for token, kind, score in zip(tokens, types, scores, strict=True):
        piece = token.replace(" ", SPACE_MARK) if kind == USER_DEFINED else token
        proto.pieces.add(piece=piece, type=kind, score=score)
    proto.trainer_spec.model_type = UNIGRAM if unigram else BPE
    proto.trainer_spec.byte_fallback = BYTE in types
    form = proto.normalizer_spec
    form.add_dummy_prefix = bool(entries.get("add_space_prefix", True))
    form.remove_extra_whitespaces = bool(entries.get("remove_extra_whitespaces", unigram))
    if unigram and "precompiled_charsmap" in entries:
        form.precompiled_charsmap = bytes(entries["precompiled_charsmap"])
    serialised: bytes = proto.SerializeToString(deterministic=True)
    return serialised
