# mypy: allow-untyped-calls
"""Export a tokenizer as a SentencePiece model with the same pieces, ids and segmentation."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from random import Random
from typing import Any

from subgraft.base.security.text_growth import component_steps
from subgraft.subwords.vocabulary.entry import SPACE_MARK, Mark
from subgraft.subwords.vocabulary.sentencepiece_model import (
    BPE,
    BYTE,
    CONTROL,
    NORMAL,
    UNIGRAM,
    UNKNOWN,
    USER_DEFINED,
)
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.tokenizer_spec import merge_ranks

# Scores below this are not log-probabilities but mark pieces that are used only if no other piece fits.
_LAST_RESORT = -1e5
# The number of random texts for comparison, the tokens in each, and the share that may differ: SentencePiece sums
# scores in 32 bits, and rounding decides between segmentations of almost equal score.
_RANDOM_TEXTS, _TOKENS_PER_TEXT, _MAX_DIFFERING_SHARE = 200, 12, 0.05
# How many of the hard texts may differ: some published vocabularies make white space at the edges a separate token.
_MAX_HARD_DIFFERING = 2
_HARD_TEXTS = (
    "",
    "  two   spaces ",
    "½ ﬁ Ⅷ",
    "e\u0301",
    "中文 ☃☃",
    "a\tb",
    "http://example.org/?q=1&r=<b>x</b>",
    "UPPER 1,5 €",
)


def as_sentencepiece(tokenizer: Tokenizer) -> bytes | None:
    """The serialised model; None for a tokenizer that SentencePiece cannot express, such as WordPiece."""
    import sentencepiece

    if tokenizer.mark is not Mark.SENTENCEPIECE or "unk" not in tokenizer.special:
        return None
    specification = tokenizer.specification
    normaliser = normaliser_settings(specification)
    scores = piece_scores(tokenizer, specification["model"])
    if normaliser is None or scores is None:
        return None
    model = _serialise(tokenizer, specification["model"], normaliser, scores)
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    except (RuntimeError, ValueError):  # a piece that SentencePiece rejects
        return None
    return model if _agrees(tokenizer, processor) else None


def normaliser_settings(specification: Mapping[str, Any]) -> dict[str, Any] | None:
    """The same steps as fields of NormalizerSpec; None if SentencePiece lacks one of them."""
    flags = ("add_dummy_prefix", "remove_extra_whitespaces")
    settings: dict[str, Any] = {**dict.fromkeys(flags, False), "escape_whitespaces": True}
    marked = False
    for step in component_steps(specification.get("normalizer")):
        kind = step["type"]
        if kind == "Precompiled":
            settings["precompiled_charsmap"] = base64.b64decode(step["precompiled_charsmap"])
        elif kind == "Prepend" and step["prepend"] == SPACE_MARK:
            settings["add_dummy_prefix"] = True
        elif kind == "Strip" or (kind == "Replace" and step["content"] in ("", " ")):
            settings["remove_extra_whitespaces"] = True
        elif kind == "Replace" and step["content"] == SPACE_MARK:
            marked = True
        elif kind != "NFC":
            return None
    for step in component_steps(specification.get("pre_tokenizer")):
        if step["type"] == "Metaspace":
            settings["add_dummy_prefix"] |= step.get("prepend_scheme", "always") != "never"
        elif step["type"] == "WhitespaceSplit":
            settings["remove_extra_whitespaces"] = True
        elif not (marked and step["type"] == "Split" and step["pattern"] == {"String": " "}):
            return None
    return settings


def piece_scores(tokenizer: Tokenizer, model: Mapping[str, Any]) -> dict[int, float] | None:
    """Scores of the ordinary pieces by id; None for kinds of model that SentencePiece lacks."""
    ordinary = [i for i in range(len(tokenizer)) if i not in tokenizer.special_ids and i not in tokenizer.symbols]
    if model["type"] == "Unigram":
        scores = {i: float(model["vocab"][i][1]) for i in ordinary if i < len(model["vocab"])}
        credible = [score for score in scores.values() if score > _LAST_RESORT]
        # Whole numbers below the score of any segmentation into likely pieces, so that sums are exact enough in 32
        # bits.
        floor = math.floor(min(credible, default=0.0)) - 1
        pieces = tokenizer.pieces
        return {i: score if score > _LAST_RESORT else floor * len(pieces[i]) for i, score in scores.items()}
    if model["type"] == "BPE":
        ranks: dict[str, int] = {}
        for (left, right), rank in merge_ranks(model).items():
            ranks.setdefault(left + right, rank)
        lowest_rank = len(ranks)
        pieces = tokenizer.pieces
        # A piece that no merge produces never occurs in a segmentation, unless it is a single character.
        reachable = [i for i in ordinary if pieces[i] in ranks or len(pieces[i]) == 1]
        return {i: -float(ranks.get(pieces[i], lowest_rank)) for i in reachable}
    return None


def _serialise(
    tokenizer: Tokenizer, model: Mapping[str, Any], normaliser: Mapping[str, Any], scores: Mapping[int, float]
) -> bytes:
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    fallback = bool(model.get("byte_fallback"))
    byte_ids = frozenset(tokenizer.byte_ids.values()) if fallback else frozenset()
    unknown = tokenizer.special["unk"]
    types = dict.fromkeys(scores, NORMAL) | dict.fromkeys(normalised_symbols(tokenizer), USER_DEFINED)
    types |= {**dict.fromkeys(byte_ids, BYTE), unknown: UNKNOWN}
    for i, piece in enumerate(tokenizer.pieces):
        kind = types.get(i, CONTROL)
        score = scores.get(i, 0.0) if kind == NORMAL else 0.0
        proto.pieces.add(piece=piece or f"<spare {i}>", score=score, type=kind)
    trainer = proto.trainer_spec
    trainer.model_type = UNIGRAM if model["type"] == "Unigram" else BPE
    trainer.vocab_size, trainer.byte_fallback, trainer.hard_vocab_limit = len(tokenizer), fallback, False
    for role in ("unk", "bos", "eos", "pad"):
        token = tokenizer.special.get(role, -1)
        setattr(trainer, f"{role}_id", token)
        if token >= 0:
            setattr(trainer, f"{role}_piece", tokenizer.pieces[token])
    for name, value in normaliser.items():
        setattr(proto.normalizer_spec, name, value)
    serialised: bytes = proto.SerializeToString(deterministic=True)
    return serialised


def normalised_symbols(tokenizer: Tokenizer) -> list[int]:
    """The symbols that are found in the normalised text, as SentencePiece finds its user-defined pieces."""
    added = tokenizer.specification["added_tokens"]
    return [token["id"] for token in added if token["id"] in tokenizer.symbols and token["normalized"]]


def _agrees(tokenizer: Tokenizer, processor: Any) -> bool:
    """Whether both segment random sequences of pieces, and hard texts, in the same way with few exceptions."""
    outside = tokenizer.symbols.keys() - normalised_symbols(tokenizer)
    ordinary, random = [i for i in tokenizer.ordinary_ids.tolist() if i not in outside], Random(0)
    random_texts = (
        [tokenizer.decode(random.choices(ordinary, k=_TOKENS_PER_TEXT)) for _ in range(_RANDOM_TEXTS)]
        if ordinary
        else []
    )
    for texts, allowed in ((random_texts, _MAX_DIFFERING_SHARE * _RANDOM_TEXTS), (_HARD_TEXTS, _MAX_HARD_DIFFERING)):
        pairs = zip(tokenizer.encode_batch(texts), processor.encode(list(texts)), strict=True)
        if sum(ours != theirs for ours, theirs in pairs) > allowed:
            return False
    return True
