"""Learn a cased WordPiece vocabulary in BERT's format, deterministically."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, trainers

from subgraft.subwords.vocabulary.entry import CONTINUATION_MARK, Mark
from subgraft.subwords.vocabulary.learning_errors import empty_corpus, too_large, too_small
from subgraft.subwords.vocabulary.specials import SpecialTokens
from subgraft.subwords.vocabulary.tokenizer import Tokenizer


def learn(
    lines: Iterable[str], size: int, character_coverage: float, special: SpecialTokens, like: Tokenizer | None
) -> tokenizers.Tokenizer:
    """A tokenizer of exactly `size` pieces. Words are split as in `like`, or as in BERT (white space, punctuation)."""
    unknown, appended = special.spelling["unk"], len(special.last)
    blank = _pipeline(models.WordPiece({unknown: 0}, unk_token=unknown), like)
    covered = _covered([blank.normalizer.normalize_str(line) for line in lines], character_coverage)
    alphabet = _train(blank, covered, list(special.first_pieces), 0)
    if len(alphabet) > size:
        raise too_small(size + appended, len(alphabet) + appended)
    # The trainer numbers ## characters in the order of a hash table, and breaks ties between merges by number. Given
    # as special tokens they are numbered by us.
    continuations = sorted(piece for piece in alphabet if piece.startswith(CONTINUATION_MARK))
    vocabulary = _train(blank, covered, [*special.first_pieces, *continuations], size)
    if len(vocabulary) < size:
        raise too_large(size + appended, len(vocabulary) + appended)
    learnt = _pipeline(models.WordPiece(vocabulary, unk_token=unknown), like)
    learnt.add_special_tokens([AddedToken(piece, special=True, normalized=False) for piece in special.first_pieces])
    return learnt


def length(piece: str) -> int:
    """The number of characters of a piece, without the continuation mark."""
    return len(piece.removeprefix(CONTINUATION_MARK))


def _pipeline(model: models.WordPiece, like: Tokenizer | None) -> tokenizers.Tokenizer:
    built = tokenizers.Tokenizer(model)
    if like is not None and like.mark is Mark.WORDPIECE:
        built.normalizer = like.backend.normalizer or normalizers.Sequence([])
        built.pre_tokenizer = like.backend.pre_tokenizer
        built.decoder = like.backend.decoder
    else:
        built.normalizer = normalizers.BertNormalizer(strip_accents=False, lowercase=False)
        built.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        built.decoder = decoders.WordPiece(prefix=CONTINUATION_MARK, cleanup=True)
    return built


def _covered(lines: Sequence[str], character_coverage: float) -> list[str]:
    """The lines with the rarest characters beyond the coverage replaced by spaces. Raises UserError if none is left."""
    counts = Counter(character for line in lines for character in line if not character.isspace())
    budget = counts.total() * (1.0 - character_coverage)
    blanked: dict[int, str] = {}
    for character, count in sorted(counts.items(), key=lambda item: (item[1], -ord(item[0]))):
        budget -= count
        if budget < 0:
            break
        blanked[ord(character)] = " "
    if len(blanked) == len(counts):
        raise empty_corpus()
    return [line.translate(blanked) for line in lines]


def _train(blank: tokenizers.Tokenizer, lines: Sequence[str], special: list[str], size: int) -> dict[str, int]:
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=0,
        limit_alphabet=0x110000,
        special_tokens=special,
        show_progress=False,
        continuing_subword_prefix=CONTINUATION_MARK,
    )
    trainee = tokenizers.Tokenizer.from_str(blank.to_str())
    trainee.train_from_iterator(lines, trainer=trainer)
    vocabulary: dict[str, int] = trainee.get_vocab(with_added_tokens=False)
    return vocabulary
