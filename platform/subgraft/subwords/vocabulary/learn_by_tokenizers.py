"""Learn a cased WordPiece vocabulary in BERT's format, or a byte-level BPE vocabulary, deterministically.

Byte-level BPE is that of GPT-2, Qwen and Llama 3 (Radford et al. 2019, section 2.2).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from subgraft.subwords.vocabulary import learning_errors
from subgraft.subwords.vocabulary.entry import CHARACTER_OF_BYTE, CONTINUATION_MARK, Mark
from subgraft.subwords.vocabulary.specials import SpecialTokens, add_special_tokens
from subgraft.subwords.vocabulary.tokenizer import Tokenizer


def learn_byte_level(
    lines: Iterable[str], size: int, special: SpecialTokens, like: Tokenizer | None
) -> tokenizers.Tokenizer:
    """A tokenizer of exactly `size` pieces including all 256 bytes; words are split as in GPT-2, or as in `like`."""
    first, appended = list(special.first_pieces), len(special.last)
    smallest = len(first) + len(CHARACTER_OF_BYTE)
    if size < smallest:
        raise learning_errors.no_room_for_bytes(size + appended, smallest + appended)
    trainee = _byte_level(models.BPE(), like)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=first,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    text = [line for line in lines if not line.isspace()]
    if not any(text):
        raise learning_errors.empty_corpus()
    trainee.train_from_iterator(text, trainer=trainer)
    model = json.loads(trainee.to_str())["model"]
    if len(model["vocab"]) < size:
        raise learning_errors.too_large(size + appended, len(model["vocab"]) + appended)
    learnt = _byte_level(models.BPE(model["vocab"], [tuple(merge) for merge in model["merges"]]), like)
    add_special_tokens(learnt, first)
    return learnt


def _byte_level(model: models.BPE, like: Tokenizer | None) -> tokenizers.Tokenizer:
    built = tokenizers.Tokenizer(model)
    if like is not None and like.mark is Mark.BYTELEVEL:
        if like.backend.normalizer is not None:
            built.normalizer = like.backend.normalizer
        built.pre_tokenizer = like.backend.pre_tokenizer
        built.decoder = like.backend.decoder
    else:
        built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        built.decoder = decoders.ByteLevel()
    return built


def learn_wordpiece(
    lines: Iterable[str], size: int, character_coverage: float, special: SpecialTokens, like: Tokenizer | None
) -> tokenizers.Tokenizer:
    """A tokenizer of exactly `size` pieces. Words are split as in `like`, or as in BERT (white space, punctuation)."""
    unknown, appended = special.spelling["unk"], len(special.last)
    blank = _wordpiece(models.WordPiece({unknown: 0}, unk_token=unknown), like)
    covered = _covered([blank.normalizer.normalize_str(line) for line in lines], character_coverage)
    alphabet = _train(blank, covered, list(special.first_pieces), 0)
    if len(alphabet) > size:
        raise learning_errors.too_small(size + appended, len(alphabet) + appended)
    # The trainer numbers ## characters in the order of a hash table, and breaks ties between merges by number. As
    # special tokens they have our numbers.
    continuations = sorted(piece for piece in alphabet if piece.startswith(CONTINUATION_MARK))
    vocabulary = _train(blank, covered, [*special.first_pieces, *continuations], size)
    if len(vocabulary) < size:
        raise learning_errors.too_large(size + appended, len(vocabulary) + appended)
    learnt = _wordpiece(models.WordPiece(vocabulary, unk_token=unknown), like)
    add_special_tokens(learnt, special.first_pieces)
    return learnt


def _wordpiece(model: models.WordPiece, like: Tokenizer | None) -> tokenizers.Tokenizer:
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
        raise learning_errors.empty_corpus()
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
