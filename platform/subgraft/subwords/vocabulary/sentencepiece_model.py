"""Convert a SentencePiece model to a tokenizer that segments text the same way."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from operator import itemgetter
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from subgraft.base.errors import UserError
from subgraft.base.security.limits import PIECE_LENGTH
from subgraft.base.security.tokenizer_checks import require_few_pieces
from subgraft.config.settings_base import NormalizationName
from subgraft.subwords.vocabulary.entry import SPACE_MARK

UNIGRAM, BPE = 1, 2  # TrainerSpec.ModelType
# SentencePiece sums scores in float32, tokenizers in float64. Sums of multiples of 2**-11 are exact in both (up to
# 2**13), so that both libraries rank two segmentations of equal score ("ww w", "w ww") the same way.
SCORE_STEPS = 2048
LONGEST_LINE = 1 << 20  # bytes; SentencePiece skips longer lines silently
_PART = 1 << 11  # characters
# It also skips lines with its own character for unknowns. The stand-in is a noncharacter, which no text has.
_SKIPPED, _STAND_IN = "\u2585", "\uffff"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6  # SentencePiece.Type


def parse(model: bytes) -> Any:
    """The ModelProto of a serialised model."""
    # Imported here because it needs protobuf, and reading a tokenizer.json does not.
    from sentencepiece import sentencepiece_model_pb2

    return sentencepiece_model_pb2.ModelProto.FromString(model)  # type: ignore[attr-defined]


def train(lines: Iterable[str], **settings: Any) -> bytes:
    """A model learnt from lines; deterministic. Raises RuntimeError like SentencePiece."""
    import sentencepiece

    buffer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line.replace(_SKIPPED, _STAND_IN) for line in lines),
        model_writer=buffer,
        max_sentence_length=LONGEST_LINE,
        num_threads=1,  # the sums of the unigram model depend on the number of threads
        minloglevel=2,
        **settings,
    )
    return buffer.getvalue()


def short_parts(lines: Iterable[str]) -> Iterator[str]:
    """Lines, long ones in parts, cut at white space if there is any.

    SentencePiece skips lines above LONGEST_LINE, and the time of unigram is quadratic in long repetitions.
    """
    for line in lines:
        start = 0
        while len(line) - start > _PART:
            end = start + _PART
            cut = 1 + max(line.rfind(space, start, end) for space in " \t\n\u3000") or end
            yield line[start:cut]
            start = cut
        yield line[start:]


@cache
def character_table(name: NormalizationName) -> bytes:
    """SentencePiece's own table of this name."""
    import sentencepiece

    normalizer = sentencepiece.SentencePieceNormalizer(rule_name=name)
    table: bytes = parse(normalizer.serialized_model_proto()).normalizer_spec.precompiled_charsmap
    return table


def ordinary_pieces(model: bytes) -> dict[str, float]:
    """Scores of the ordinary pieces, without special tokens and bytes, in the order of ids."""
    return {piece.piece: piece.score for piece in parse(model).pieces if piece.type == NORMAL}


def finished(model: bytes, table: bytes | None = None) -> bytes:
    """A trained model with scores rounded to multiples of 1 / SCORE_STEPS, and another table of characters."""
    proto = parse(model)
    for piece in proto.pieces:
        if piece.type == NORMAL:
            piece.score = round(piece.score * SCORE_STEPS) / SCORE_STEPS
            piece.piece = piece.piece.replace(_STAND_IN, _SKIPPED)
    if table not in (None, proto.normalizer_spec.precompiled_charsmap):
        proto.normalizer_spec.precompiled_charsmap, proto.normalizer_spec.name = table, "user_defined"
    serialised: bytes = proto.SerializeToString(deterministic=True)
    return serialised


def remove_pieces(model: bytes, pieces: Collection[str]) -> bytes:
    """The model without some of its ordinary pieces; ids are renumbered without gaps."""
    proto, removed = parse(model), frozenset(pieces)
    remaining = [piece for piece in proto.pieces if piece.type != NORMAL or piece.piece not in removed]
    del proto.pieces[:]
    proto.pieces.extend(remaining)
    proto.trainer_spec.vocab_size = len(remaining)
    serialised: bytes = proto.SerializeToString(deterministic=True)
    return serialised


def convert(model: bytes, *, prefix_once: bool = False) -> tokenizers.Tokenizer:
    """A tokenizer with the model's ids and segmentation.

    Args:
        model: The serialised SentencePiece model.
        prefix_once: Text behind a special token gets no dummy prefix, nor does text that begins with a space.

    Raises:
        UserError: The model is unsupported or too large.
    """
    proto = parse(model)
    require_few_pieces(len(proto.pieces))
    kind = proto.trainer_spec.model_type
    if kind not in (UNIGRAM, BPE) or proto.trainer_spec.treat_whitespace_as_suffix:
        raise UserError(
            "only unigram and BPE models of SentencePiece that mark a word's beginning can be used",
            hint="Learn the vocabulary again, of kind unigram or bpe.",
        )
    tokenizer = tokenizers.Tokenizer(_unigram(proto) if kind == UNIGRAM else _bpe(proto))
    specification = proto.normalizer_spec
    prefix, keeps_spaces = specification.add_dummy_prefix, not specification.remove_extra_whitespaces
    # Text after a user-defined symbol begins no word, unless it begins with a space.
    once = prefix_once or any(piece.type == USER_DEFINED for piece in proto.pieces)
    # Metaspace puts no prefix before a space, and takes all spaces at the beginning for the prefix.
    prepends = prefix and keeps_spaces and not once
    tokenizer.normalizer = _normalizer(specification, prepends)
    scheme = "never" if prepends or not prefix else "first" if once else "always"
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(
        replacement=SPACE_MARK,
        prepend_scheme=scheme,
        split=not any(piece.type == NORMAL and SPACE_MARK in piece.piece[1:] for piece in proto.pieces),
    )
    tokenizer.decoder = _decoder(proto, scheme, keeps_spaces)
    for piece in proto.pieces:
        if piece.type in (UNKNOWN, CONTROL):
            tokenizer.add_tokens([AddedToken(piece.piece, special=True, normalized=False)])
        elif piece.type == USER_DEFINED:
            add_symbols(tokenizer, [piece.piece])
    return tokenizer


def add_symbols(tokenizer: tokenizers.Tokenizer, symbols: Iterable[str]) -> None:
    """Add user-defined symbols, found in the normalised text, where the spaces around them are as they should be.

    One that normalisation changes is found in the text before it, as SentencePiece finds all of them.
    """
    normalizer = tokenizer.normalizer
    for symbol in symbols:
        stable = normalizer is None or normalizer.normalize_str(symbol) == symbol
        tokenizer.add_tokens([AddedToken(symbol, special=False, normalized=stable)])


def _unigram(proto: Any) -> models.Unigram:
    vocabulary = [(piece.piece, piece.score) for piece in proto.pieces]
    return models.Unigram(vocabulary, _unknown_id(proto), proto.trainer_spec.byte_fallback)


def _bpe(proto: Any) -> models.BPE:
    """SentencePiece joins the neighbours whose result scores best, so each split of a piece in two becomes a merge."""
    ids = {piece.piece: i for i, piece in enumerate(proto.pieces)}
    merges: list[tuple[float, int, int, str, str]] = []
    for piece in proto.pieces:
        if piece.type == NORMAL:
            if len(piece.piece) > PIECE_LENGTH.value:
                raise UserError(f"a piece of {len(piece.piece):,} characters", hint=PIECE_LENGTH.hint)
            splits = ((piece.piece[:k], piece.piece[k:]) for k in range(1, len(piece.piece)))
            merges += [
                (-piece.score, ids[left], ids[right], left, right)
                for left, right in splits
                if left in ids and right in ids
            ]
    merges.sort(key=itemgetter(0, 1, 2))
    return models.BPE(
        vocab=ids,
        merges=[(left, right) for *_, left, right in merges],
        unk_token=proto.pieces[_unknown_id(proto)].piece,
        fuse_unk=True,
        byte_fallback=proto.trainer_spec.byte_fallback,
    )


def _unknown_id(proto: Any) -> int:
    unknown = next((i for i, piece in enumerate(proto.pieces) if piece.type == UNKNOWN), None)
    if unknown is None:
        raise UserError("a SentencePiece model without an unknown token")
    return unknown


def _decoder(proto: Any, scheme: str, keeps_spaces: bool) -> decoders.Decoder:
    fallback = [decoders.ByteFallback()] if proto.trainer_spec.byte_fallback else []
    if not keeps_spaces:
        metaspace = decoders.Metaspace(replacement=SPACE_MARK, prepend_scheme=scheme)
        return decoders.Sequence([*fallback, metaspace]) if fallback else metaspace
    prefix = [decoders.Strip(" ", 1, 0)] if proto.normalizer_spec.add_dummy_prefix else []
    return decoders.Sequence([decoders.Replace(SPACE_MARK, " "), *fallback, decoders.Fuse(), *prefix])


def _normalizer(specification: Any, prepends: bool) -> normalizers.Normalizer:
    steps: list[normalizers.Normalizer] = []
    if specification.precompiled_charsmap:
        # Precompiled maps only short graphemes and single characters, so long decomposed sequences (kana, Hangul) are
        # composed first.
        steps += [normalizers.NFC(), normalizers.Precompiled(specification.precompiled_charsmap)]
    if specification.remove_extra_whitespaces:
        edges, runs = Regex(r"\A +| +\z"), Regex(" {2,}")
        steps += [normalizers.Replace(edges, ""), normalizers.Replace(runs, " ")]
    if prepends:
        steps.append(normalizers.Prepend(SPACE_MARK))
    return normalizers.Sequence(steps)
