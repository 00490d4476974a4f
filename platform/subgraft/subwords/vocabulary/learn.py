"""Learn a vocabulary from a corpus: unigram and BPE by SentencePiece, WordPiece and byte-level BPE by tokenizers.

The latter are deterministic: a cased WordPiece vocabulary in BERT's format, and the byte-level BPE of GPT-2, Qwen and
Llama 3 (Radford et al. 2019, section 2.2).
"""

from __future__ import annotations

import json
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from subgraft.base.errors import UserError
from subgraft.base.security.tokenizer_checks import MAX_WORD_CHARACTERS
from subgraft.config.settings_base import SENTENCEPIECE_KINDS, NormalizationName, VocabularyKind
from subgraft.subwords.vocabulary.directory import Source
from subgraft.subwords.vocabulary.entry import CHARACTER_OF_BYTE, CONTINUATION_MARK, Mark
from subgraft.subwords.vocabulary.learning_errors import empty_corpus, no_room_for_bytes, too_large, too_small
from subgraft.subwords.vocabulary.normalization import Normalization
from subgraft.subwords.vocabulary.prune import Learnt, learn_used
from subgraft.subwords.vocabulary.sentencepiece_model import finished, short_parts, train
from subgraft.subwords.vocabulary.specials import SpecialTokens, add_special_tokens, special_tokens
from subgraft.subwords.vocabulary.symbols import add_words, adopted_symbols, require_symbols, text_between
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

_BERT_WORD_CHARACTERS = 100
_LAYOUT = frozenset("\u00ad\ufeff")  # a soft hyphen and a byte order mark

# Characters without white space that are learnt as one word: more than any sentence of Chinese.
_LONG_WORD = re.compile(r"\S{1024}(?=\S)")


def learn(
    lines: Iterable[str],
    *,
    kind: VocabularyKind,
    size: int,
    character_coverage: float = 1.0,
    byte_fallback: bool = False,
    mask: bool = False,
    languages: Sequence[str] = (),
    like: Tokenizer | None = None,
    words: Sequence[str] = (),
    normalization: NormalizationName | None = None,
    keep_whitespace: bool | None = None,
    dummy_prefix: bool | None = None,
    split_digits: bool | None = None,
    max_lines: int | None = None,
    min_count: int | None = None,
    seed: int = 1,
) -> Tokenizer:
    """Learn a vocabulary of exactly `size` pieces, special tokens included; the result is deterministic.

    Args:
        character_coverage: The share of the text's characters that get their own pieces; the rest is unknown, or with
            byte_fallback written in bytes.
        byte_fallback: Add the 256 bytes (unigram and bpe; byte-level-bpe always has them).
        mask, languages: Append a mask token, and these language codes or other special tokens.
        like: A vocabulary to fit the model of: its special tokens, language codes and user-defined symbols, what it
            does to text before cutting it, and its settings are adopted.
        words: User-defined symbols, which are single tokens and part of `size`.
        normalization: SentencePiece's table of characters, in place of the normalisation of `like`. Without either,
            nmt_nfkc for unigram and bpe, none for byte-level-bpe, BERT's for wordpiece.
        keep_whitespace, dummy_prefix: Whether runs of spaces count, and whether a text's first word is marked like
            words after a space (unigram and bpe; by default as in `like`, or no and yes).
        split_digits: Whether every digit is a piece of its own; by default as in `like`, or no.
        max_lines: Learn from a uniform sample of this many lines, which `seed` determines.
        min_count: Replace pieces that occur fewer times in the text (see `prune`).

    Raises:
        UserError: The text is empty or does not support a vocabulary of this size.
    """
    special = special_tokens(wordpiece=kind == "wordpiece", mask=mask, languages=languages, like=like)
    symbols = [] if like is None else adopted_symbols(like)
    adopted = {each.content for each in symbols}
    words = [word for word in require_symbols(words, special.pieces) if word not in adopted]
    lines = text_between(lines, [*adopted, *words])
    chosen = lines if max_lines is None else sample(lines, max_lines, seed)
    # A space within each word that is too long: all kinds take quadratic time for one, or fail.
    sampled = (_LONG_WORD.sub(r"\g<0> ", line) for line in chosen)
    last = len(special.last) + len(symbols) + len(words)
    if byte_fallback and kind not in SENTENCEPIECE_KINDS:
        raise UserError(f"byte_fallback applies to unigram and bpe, not to {kind}")
    if character_coverage < 1 and kind == "byte-level-bpe":
        raise UserError("character_coverage does not apply to byte-level-bpe, which spells every character in bytes")
    if kind not in SENTENCEPIECE_KINDS and (keep_whitespace, dummy_prefix) != (None, None):
        raise UserError(f"keep_whitespace and dummy_prefix apply to unigram and bpe, not to {kind}")
    treatment = Normalization() if like is None else Normalization.of(like)
    if like is None and kind in SENTENCEPIECE_KINDS:
        treatment = treatment.changed("nmt_nfkc")
    treatment = treatment.changed(normalization, keep_whitespace, dummy_prefix, split_digits)
    has_symbols = bool(symbols or words)
    if has_symbols and treatment.keep_whitespace:
        treatment = replace(treatment, once=True)  # text behind a symbol begins no word
    # The parts of a vocabulary of the same kind are used as they are.
    same = like if like is not None and normalization is None else None

    def learn_size(text: Iterable[str], total: int) -> Learnt:
        ordinary = total - last
        text = text if like is None else like.guard.checked(text)  # its normalizer is used
        if kind == "wordpiece":
            return Learnt(learn_wordpiece(text, ordinary, character_coverage, special, treatment, same, last))
        if kind == "byte-level-bpe":
            return Learnt(learn_byte_level(text, ordinary, special, treatment, same, last))
        model = _learn_sentencepiece(
            treatment, iter(text), kind, ordinary, character_coverage, byte_fallback, special, last
        )
        return Learnt(treatment.tokenizer(model), model, treatment.tokenizer)

    text = list(sampled) if has_symbols or min_count is not None else sampled
    total = size
    while True:
        if min_count is None:
            backend, model, _ = learn_size(text, total)
        else:
            backend, model, _ = learn_used(partial(learn_size, text), text, total, min_count, last)
        add_special_tokens(backend, special.last)
        if has_symbols:
            backend.add_tokens(symbols)
            add_words(backend, words)
        missing = size - int(backend.get_vocab_size())
        if not missing or not has_symbols:
            break
        total += missing  # symbols that are learnt pieces as well
    model = model if treatment.is_of_sentencepiece else None
    learnt = Tokenizer(Source(backend.to_str(), special.config, model))
    return learnt if like is None else learnt.for_model_of(like)


def kind_like(tokenizer: Tokenizer) -> VocabularyKind:
    """The kind of a tokenizer's vocabulary, which its class in transformers may need."""
    marks: dict[Mark, VocabularyKind] = {Mark.WORDPIECE: "wordpiece", Mark.BYTELEVEL: "byte-level-bpe"}
    algorithm: VocabularyKind = "bpe" if type(tokenizer.backend.model).__name__ == "BPE" else "unigram"
    return marks.get(tokenizer.mark, algorithm)


class SampledLines:
    """Lines of which a uniform sample remains once they have been read (Vitter 1985, algorithm R)."""

    def __init__(self, lines: Iterable[str], count: int, seed: int = 1) -> None:
        self._lines, self._count, self._seed = lines, count, seed
        self._reservoir: list[tuple[int, str]] = []

    def __iter__(self) -> Iterator[str]:
        generator = random.Random(self._seed)
        self._reservoir = []
        for i, line in enumerate(self._lines):
            if i < self._count:
                self._reservoir.append((i, line))
            elif (slot := generator.randrange(i + 1)) < self._count:
                self._reservoir[slot] = (i, line)
            yield line

    @property
    def sample(self) -> list[str]:
        """At most `count` of the lines that have been read, in the text's order."""
        return [line for _, line in sorted(self._reservoir)]


def sample(lines: Iterable[str], count: int, seed: int) -> list[str]:
    """A uniform sample of at most `count` lines, in the text's order."""
    sampled = SampledLines(lines, count, seed)
    for _ in sampled:
        pass
    return sampled.sample


def _learn_sentencepiece(
    treatment: Normalization,
    lines: Iterator[str],
    kind: str,
    size: int,
    character_coverage: float,
    byte_fallback: bool,
    special: SpecialTokens,
    appended: int,
) -> bytes:
    errors: list[UserError] = []
    fewest = len(special.first_pieces) + 1  # with fewer, SentencePiece does not count the characters that it requires
    try:
        model = train(
            short_parts(treatment.normalized(_record_errors(lines, errors))),
            model_type=kind,
            vocab_size=max(size, fewest),
            character_coverage=character_coverage,
            byte_fallback=byte_fallback,
            **treatment.training_settings,
            **_roles(special),
        )
    except RuntimeError as error:
        if errors:
            raise errors[0] from None
        raise _explain_error(str(error), size, appended, byte_fallback) from error
    if size < fewest:
        raise too_small(size + appended, fewest + appended, byte_fallback)
    return finished(model, treatment.table)


def _record_errors(lines: Iterable[str], errors: list[UserError]) -> Iterator[str]:
    """Yield the lines and record an error of reading them, because SentencePiece reports only its message."""
    try:
        yield from lines
    except UserError as error:
        errors.append(error)
        raise


def _roles(special: SpecialTokens) -> dict[str, Any]:
    """SentencePiece's settings of each role's id and piece; only the first of roles that share a piece is set."""
    settings: dict[str, Any] = {f"{role}_id": -1 for role in special.first}
    role_of = {special.spelling[role]: role for role in reversed(special.first) if role in special.spelling}
    for i, piece in enumerate(special.first_pieces):
        settings |= {f"{role_of[piece]}_id": i, f"{role_of[piece]}_piece": piece}
    return settings


def _explain_error(message: str, size: int, appended: int, byte_fallback: bool) -> UserError:
    """SentencePiece's error in the user's terms; sizes include the appended special tokens."""
    if largest := re.search(r"set it to a value <= (\d+)", message):
        return too_large(size + appended, int(largest[1]) + appended)
    if smallest := re.search(r"required_chars\. \d+ vs (\d+)", message):
        return too_small(size + appended, int(smallest[1]) + appended, byte_fallback)
    if "sentences_.empty()" in message or "all_chars_count" in message:
        return empty_corpus()
    return UserError(f"SentencePiece could not learn this vocabulary: {message}")


def learn_byte_level(
    lines: Iterable[str],
    size: int,
    special: SpecialTokens,
    treatment: Normalization,
    like: Tokenizer | None,
    appended: int,
) -> tokenizers.Tokenizer:
    """A tokenizer of exactly `size` pieces including all 256 bytes; words are split as in GPT-2, or as in `like`."""
    first = list(special.first_pieces)
    smallest = len(first) + len(CHARACTER_OF_BYTE)
    if size < smallest:
        raise no_room_for_bytes(size + appended, smallest + appended)
    trainee = _byte_level_tokenizer(models.BPE(), treatment, like)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=first,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    text = [line for line in lines if not line.isspace()]
    if not any(text):
        raise empty_corpus()
    trainee.train_from_iterator(text, trainer=trainer)
    model = json.loads(trainee.to_str())["model"]
    if len(model["vocab"]) < size:
        raise too_large(size + appended, len(model["vocab"]) + appended)
    merges = [tuple(merge) for merge in model["merges"]]
    learnt = _byte_level_tokenizer(models.BPE(model["vocab"], merges), treatment, like)
    add_special_tokens(learnt, first)
    return learnt


def _byte_level_tokenizer(model: models.BPE, treatment: Normalization, like: Tokenizer | None) -> tokenizers.Tokenizer:
    built = tokenizers.Tokenizer(model)
    if like is not None and like.mark is Mark.BYTELEVEL:
        if like.backend.normalizer is not None:
            built.normalizer = like.backend.normalizer
        built.pre_tokenizer = treatment.split(like.backend.pre_tokenizer)
        built.decoder = like.backend.decoder
    else:
        if treatment.changes_characters:
            built.normalizer = treatment.characters
        built.pre_tokenizer = treatment.split(pre_tokenizers.ByteLevel(add_prefix_space=False))
        built.decoder = decoders.ByteLevel()
    return built


def learn_wordpiece(
    lines: Iterable[str],
    size: int,
    character_coverage: float,
    special: SpecialTokens,
    treatment: Normalization,
    like: Tokenizer | None,
    appended: int,
) -> tokenizers.Tokenizer:
    """A tokenizer of exactly `size` pieces. Words are split as in `like`, or as in BERT (white space, punctuation)."""
    unknown, text = special.spelling["unk"], list(lines)
    untrained = _wordpiece_tokenizer(models.WordPiece({unknown: 0}, unk_token=unknown), text, treatment, like)
    covered = _limit_alphabet([untrained.normalizer.normalize_str(line) for line in text], character_coverage)
    alphabet = _train_wordpiece(untrained, covered, list(special.first_pieces), 0)
    if len(alphabet) > size:
        raise too_small(size + appended, len(alphabet) + appended)
    # The trainer numbers ## characters in the order of a hash table, and breaks ties between merges by these numbers.
    # Passing the characters as special tokens fixes their numbers.
    continuations = sorted(piece for piece in alphabet if piece.startswith(CONTINUATION_MARK))
    vocabulary = _train_wordpiece(untrained, covered, [*special.first_pieces, *continuations], size)
    if len(vocabulary) < size:
        raise too_large(size + appended, len(vocabulary) + appended)
    # BERT's limit is 100 characters: a longer word, such as a sentence in Thai or a line of DNA, is one unknown token.
    longest = max((len(word) for line in covered for word in line.split()), default=0)
    limit = min(max(longest, _BERT_WORD_CHARACTERS), MAX_WORD_CHARACTERS)
    model = models.WordPiece(vocabulary, unk_token=unknown, max_input_chars_per_word=limit)
    learnt = _wordpiece_tokenizer(model, text, treatment, like)
    add_special_tokens(learnt, special.first_pieces)
    return learnt


def _wordpiece_tokenizer(
    model: models.WordPiece, lines: Iterable[str], treatment: Normalization, like: Tokenizer | None
) -> tokenizers.Tokenizer:
    built = tokenizers.Tokenizer(model)
    if like is not None and like.mark is Mark.WORDPIECE:
        built.normalizer = like.backend.normalizer or normalizers.Sequence([])
        built.pre_tokenizer = treatment.split(like.backend.pre_tokenizer)
        built.decoder = like.backend.decoder
    else:
        bert = _bert_normalizer(lines)
        built.normalizer = normalizers.Sequence([treatment.characters, bert]) if treatment.changes_characters else bert
        built.pre_tokenizer = treatment.split(pre_tokenizers.BertPreTokenizer())
        built.decoder = decoders.WordPiece(prefix=CONTINUATION_MARK, cleanup=True)
    return built


def _bert_normalizer(lines: Iterable[str]) -> normalizers.Normalizer:
    """BERT's, cased, but for the invisible characters of the text, which it deletes: joiners are part of spelling."""
    invisible = {character for line in lines for character in set(line) if unicodedata.category(character) == "Cf"}
    retained = sorted(invisible - _LAYOUT)
    bert = normalizers.BertNormalizer(clean_text=not retained, strip_accents=False, lowercase=False)
    if not retained:
        return bert
    deleted = rf"[\p{{Cc}}\p{{Cf}}\p{{Cn}}\p{{Co}}\x{{FFFD}}&&[^\t\n\r{''.join(retained)}]]"
    return normalizers.Sequence([normalizers.Replace(Regex(deleted), ""), bert])


def _limit_alphabet(lines: Sequence[str], character_coverage: float) -> list[str]:
    """Replace the rarest characters, beyond the coverage, by spaces. Raises UserError if no character remains."""
    counts = Counter(character for line in lines for character in line if not character.isspace())
    budget = counts.total() * (1.0 - character_coverage)
    replaced: dict[int, str] = {}
    for character, count in sorted(counts.items(), key=lambda item: (item[1], -ord(item[0]))):
        budget -= count
        if budget < 0:
            break
        replaced[ord(character)] = " "
    if len(replaced) == len(counts):
        raise empty_corpus()
    return [line.translate(replaced) for line in lines]


def _train_wordpiece(
    untrained: tokenizers.Tokenizer, lines: Sequence[str], special: list[str], size: int
) -> dict[str, int]:
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=0,
        limit_alphabet=0x110000,
        special_tokens=special,
        show_progress=False,
        continuing_subword_prefix=CONTINUATION_MARK,
    )
    trainee = tokenizers.Tokenizer.from_str(untrained.to_str())
    trainee.train_from_iterator(lines, trainer=trainer)
    vocabulary: dict[str, int] = trainee.get_vocab(with_added_tokens=False)
    return vocabulary
