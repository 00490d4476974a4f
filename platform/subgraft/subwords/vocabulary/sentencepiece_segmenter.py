"""Segment large texts by SentencePiece, about ten times as fast as tokenizers, where both are known to agree.

They agree if `convert` made the tokenizer.json from the model next to it, and for texts without combining marks,
user-defined symbols, and special tokens that are spelled out; all other texts are segmented by tokenizers. As a
safeguard, a sample is segmented by both, and if they differ even once, tokenizers segments all texts.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, get_args

import sentencepiece

from subgraft.base.errors import UserError
from subgraft.base.security.tokenizer_checks import as_user_error
from subgraft.config.settings_base import NormalizationName
from subgraft.subwords.vocabulary.entry import SPACE_MARK
from subgraft.subwords.vocabulary.sentencepiece_model import (
    BYTE,
    CONTROL,
    NORMAL,
    SCORE_STEPS,
    UNIGRAM,
    UNKNOWN,
    USER_DEFINED,
    character_table,
    convert,
    parse,
)

Segment: TypeAlias = Callable[[Sequence[str]], list[list[int]]]

SAMPLE = 100
# Text of Latin, Greek and Cyrillic letters, punctuation, symbols, kana, Chinese characters and Hangul syllables. All
# are visible characters by themselves, and none is normalised to the first character of a special token.
PLAIN = re.compile(
    "[ -~\u00a0-\u00ac\u00ae-\u02ff\u0370-\u0373\u0376-\u037d\u0384-\u0386\u0388-\u0482\u048a-\u052f\u2010-\u2027"
    "\u2030-\u205e\u2070-\u20c0\u2100-\u2125\u2127-\u2129\u212c-\u2328\u232b-\u2580\u2582-\u2adb\u2add-\u2bff"
    "\u3000-\u3029\u3030-\u3098\u309b-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uff01\uff08\uff09\uff0c\uff0e\uff1a\uff1b"
    "\uff1f\uff61-\uff9d]*"
)
OPENERS = frozenset("<[")
_KNOWN_TYPES = frozenset({NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE})
# SentencePiece adds scores as float32: multiples of 1 / SCORE_STEPS are exact up to this sum.
_EXACT_SUM = 2.0**24 / SCORE_STEPS
_UNKNOWN_PENALTY = 10.0  # a character without a piece scores this much below the lowest score


class SentencePieceSegmenter:
    """Segments texts like the tokenizer that was converted from a SentencePiece model."""

    def __init__(
        self,
        model: bytes,
        max_tokens: float,
        added_tokens: Sequence[str],
        symbols: Sequence[str],
        normalise: Callable[[str], str],
        fallback: Segment,
    ) -> None:
        """Args:
        model: The serialised SentencePiece model.
        max_tokens: The length up to which sums of scores are exact; longer texts are segmented by `fallback`.
        added_tokens: Special tokens that the model lacks; texts that spell one are segmented by `fallback`.
        symbols: User-defined symbols; texts that contain one, also after normalisation, are segmented by `fallback`.
        normalise: Normalises a text.
        fallback: Segments texts by tokenizers.
        """
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self._unknown = int(self._processor.unk_id())
        self._special = _any_of([*sorted(OPENERS), *added_tokens])
        self._symbols = _any_of([*symbols, *map(normalise, symbols)]) if symbols else None
        self._normalise = normalise
        self._max_tokens = max_tokens
        self._fallback = fallback
        self._agree: bool | None = None

    @classmethod
    def of(
        cls, model: bytes, specification: Mapping[str, Any], normalise: Callable[[str], str], fallback: Segment
    ) -> SentencePieceSegmenter | None:
        """Create it for a parsed tokenizer.json and the model next to it; None if they are not known to agree."""
        try:
            with as_user_error("not a SentencePiece model"):
                proto = parse(model)
                if not _is_ordinary(proto) or not _is_converted_from(model, specification):
                    return None
        except UserError:
            return None
        pieces = {piece.piece for piece in proto.pieces}
        added_tokens = specification.get("added_tokens") or []
        added = [str(token["content"]) for token in added_tokens if token.get("special")]
        symbols = [str(token["content"]) for token in added_tokens if not token.get("special")]
        lowest_score = min(piece.score for piece in proto.pieces)
        kind = proto.trainer_spec.model_type
        max_tokens = _EXACT_SUM / (_UNKNOWN_PENALTY - lowest_score) if kind == UNIGRAM else float("inf")
        foreign = [token for token in added if token not in pieces]
        return cls(model, max_tokens, foreign, symbols, normalise, fallback)

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without special tokens, on as many threads as numeric libraries may have here."""
        plain = [i for i, text in enumerate(texts) if self._is_plain(text)]
        if self._agree is None and plain:
            sample = [texts[i] for i in plain[:: max(1, len(plain) // SAMPLE)]]
            self._agree = self._processor.encode(sample) == self._fallback(sample)
        exact: dict[int, list[int]] = {}
        if self._agree:
            segmented = self._processor.encode([texts[i] for i in plain], num_threads=allowed_threads())
            for i, ids in zip(plain, segmented, strict=True):
                # All sums of scores are exact in short texts; an unknown token may stand for many characters.
                if len(ids) <= self._max_tokens and self._unknown not in ids:
                    exact[i] = ids
        remaining = [i for i in range(len(texts)) if i not in exact]
        exact.update(zip(remaining, self._fallback([texts[i] for i in remaining]), strict=True))
        return [exact[i] for i in range(len(texts))]

    def _is_plain(self, text: str) -> bool:
        if PLAIN.fullmatch(text) is None or self._special.search(text) is not None:
            return False
        if self._symbols is None:
            return True
        return self._symbols.search(text) is None and self._symbols.search(self._normalise(text)) is None


def _any_of(texts: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, filter(None, texts))))


def _is_ordinary(proto: Any) -> bool:
    """Whether a model has the form of learnt ones: rounded scores, no pieces across words, known normalisation."""
    normaliser = proto.normalizer_spec
    return (
        all(piece.score * SCORE_STEPS == round(piece.score * SCORE_STEPS) for piece in proto.pieces)
        and all(SPACE_MARK not in piece.piece[1:] for piece in proto.pieces)
        and all(piece.type in _KNOWN_TYPES for piece in proto.pieces)
        and all(piece.type in (NORMAL, USER_DEFINED) or piece.piece[:1] in OPENERS for piece in proto.pieces)
        # Other tables are not trusted, because SentencePiece does not check bounds.
        and normaliser.precompiled_charsmap in map(character_table, get_args(NormalizationName))
    )


def _is_converted_from(model: bytes, specification: Mapping[str, Any]) -> bool:
    """Whether a tokenizer.json equals the result of `convert`, apart from added tokens and what follows a symbol."""
    converted = json.loads(convert(model).to_str())
    splitting, added = dict(specification.get("pre_tokenizer") or {}), specification.get("added_tokens") or []
    if splitting.get("prepend_scheme") == "first":
        splitting["prepend_scheme"] = converted["pre_tokenizer"]["prepend_scheme"]
    return (
        splitting == converted["pre_tokenizer"]
        and all(converted[part] == specification.get(part) for part in ("normalizer", "model"))
        and all(not token.get("special") or not token.get("normalized") for token in added)
    )


def allowed_threads() -> int:
    """The number of threads of tokenizers; all cores if RAYON_NUM_THREADS is not set."""
    setting = os.environ.get("RAYON_NUM_THREADS", "")
    return int(setting) if setting.isdecimal() and int(setting) else os.cpu_count() or 1
