"""One vocabulary from the chosen pieces of many languages, in SentencePiece's and Hugging Face's formats."""

from __future__ import annotations

from collections.abc import Mapping

import sentencepiece

from subgraft.contrib.allocation.piece_training import NORMALIZATION
from subgraft.subwords.vocabulary.directory import Source
from subgraft.subwords.vocabulary.sentencepiece_model import BYTE, CONTROL, NORMAL, UNIGRAM, UNKNOWN, convert, parse
from subgraft.subwords.vocabulary.specials import SpecialTokens, add_special_tokens
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

BYTES = 256


def fixed_pieces(special: SpecialTokens, byte_fallback: bool) -> int:
    """The number of pieces that are not subwords: special tokens and bytes."""
    return len(special.first_pieces) + len(special.last) + (BYTES if byte_fallback else 0)


def union(
    pieces: Mapping[str, Mapping[str, float]], special: SpecialTokens, *, byte_fallback: bool = False
) -> Tokenizer:
    """The union of all languages' pieces as a unigram vocabulary.

    Each piece has the highest probability that any language assigns to it. A text is not always segmented as by its own
    language's vocabulary, but equally well. A union of BPE merges is worse, because merges of one language interfere
    with those of another (Swahili and Manx lose 8 and 10 % of ALP).

    Args:
        pieces: Log probabilities by language.
        special: The special tokens.
        byte_fallback: Add the 256 bytes.
    """
    best: dict[str, float] = {}
    for scores in pieces.values():
        for piece, score in scores.items():
            best[piece] = max(score, best.get(piece, score))
    for piece in (*special.first_pieces, *special.last):
        best.pop(piece, None)
    ranked = sorted(best, key=lambda piece: (len(piece) == 1, -best[piece], piece))
    model = _model({piece: best[piece] for piece in ranked}, special, byte_fallback)
    backend = convert(model)
    add_special_tokens(backend, special.last)
    return Tokenizer(Source(backend.to_str(), special.config, model))


def _model(scores: Mapping[str, float], special: SpecialTokens, byte_fallback: bool) -> bytes:
    # A model without pieces, with the normalisation of training.
    rule = sentencepiece.SentencePieceNormalizer(rule_name=NORMALIZATION)
    proto = parse(rule.serialized_model_proto())
    del proto.pieces[:]
    trainer = proto.trainer_spec
    trainer.model_type = UNIGRAM
    trainer.byte_fallback = byte_fallback
    unknown = special.spelling["unk"]
    for piece in special.first_pieces:
        proto.pieces.add(piece=piece, score=0.0, type=UNKNOWN if piece == unknown else CONTROL)
    for role in ("unk", "bos", "eos", "pad"):
        piece_of_role = special.spelling.get(role)
        has_id = role in special.first and piece_of_role in special.first_pieces
        setattr(trainer, f"{role}_id", special.first_pieces.index(str(piece_of_role)) if has_id else -1)
        if has_id:
            setattr(trainer, f"{role}_piece", piece_of_role)
    for byte in range(BYTES if byte_fallback else 0):
        proto.pieces.add(piece=f"<0x{byte:02X}>", score=0.0, type=BYTE)
    for piece, score in scores.items():
        proto.pieces.add(piece=piece, score=score, type=NORMAL)
    trainer.vocab_size = len(proto.pieces)
    serialised: bytes = proto.SerializeToString(deterministic=True)
    return serialised
