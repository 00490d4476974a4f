"""Vocabularies: learnt from text, or those of models."""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union, get_args

from subgraft.base.errors import ArgumentError, LossWarning, UserError
from subgraft.base.limits import MAX_VOCABULARY_SIZE
from subgraft.config.settings_base import (
    MAX_LOST_LINES,
    SENTENCEPIECE_KINDS,
    NormalizationName,
    SideName,
    VocabularyKind,
)
from subgraft.data.text.text_files import TextFiles
from subgraft.interfaces.api.arguments import (
    columns_of,
    located,
    one_of,
    require_column,
    require_share,
    require_whole,
    shown,
    text_files_of,
)
from subgraft.subwords.vocabulary.capacity import Capacity, capacity
from subgraft.subwords.vocabulary.extend import MIN_COUNT
from subgraft.subwords.vocabulary.extend import extend as extend_vocabulary
from subgraft.subwords.vocabulary.learn import kind_like, learn
from subgraft.subwords.vocabulary.lost_text import lost_text, sampled
from subgraft.subwords.vocabulary.spelling import counted, remaining_unknown, words_beyond_limit
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.trim import prune as prune_vocabulary
from subgraft.subwords.vocabulary.trim import trim as trim_vocabulary

if TYPE_CHECKING:
    from subgraft.interfaces.api.model import Model


# Strings are lines; those that are names of files are refused. Paths are files of text (lines, plain or gzipped; JSON
# lines, CSV, TSV, Parquet), folders of these, or data sets. A table (pandas.DataFrame, datasets.Dataset) has a column.
Text: TypeAlias = Path | Iterable[str | Path]
VocabularyLike: TypeAlias = Union[Tokenizer, Path, str, "Model"]

# Matches strings that look like names of files: without white space, and with an ending or a folder.
_NAME = re.compile(r"(?!\w+://)(\S*[/\\]\S*|\S*[^\s.]\.[A-Za-z][A-Za-z0-9_]{0,9}(\.(gz|bz2|xz|zip|zst))?)")
_WITH_ENDING = re.compile(r"[/\\]|\.\w")
_MAX_NAME_LENGTH, _MAX_NAMES, _MAX_SHOWN = 4096, 1000, 80


def learn_vocabulary(
    text: Text,
    *,
    size: int,
    kind: VocabularyKind | None = None,
    like: VocabularyLike | None = None,
    character_coverage: float = 1.0,
    byte_fallback: bool | None = None,
    normalization: NormalizationName | None = None,
    keep_whitespace: bool | None = None,
    dummy_prefix: bool | None = None,
    split_digits: bool | None = None,
    min_count: int | None = None,
    words: Sequence[str] = (),
    max_lost_lines: float = MAX_LOST_LINES,
    field: str = "text",
) -> Tokenizer:
    """Learn a vocabulary from a task's text, as `subgraft vocab learn` does; its `save` writes a directory.

    Args:
        text: lines (`str`) and files or folders of text (`Path`), or a table; a string that names a file is refused.
        size: pieces, special tokens included.
        kind: the algorithm; by default that of `like`, or unigram.
        like: the model or vocabulary whose special tokens, language codes, user-defined symbols and treatment of text
            to copy: normalisation, white space, digits. What it does not keep (case, accents) is lost here too.
        character_coverage: share of the characters that get their own pieces.
        byte_fallback: encode other characters as bytes; the default for unigram and bpe, unavailable for others.
        normalization: SentencePiece's table of characters: identity, nfkc, nmt_nfkc, nfkc_cf or nmt_nfkc_cf; by default
            as in `like`, or nmt_nfkc for unigram and bpe, none for byte-level-bpe, BERT's for wordpiece.
        keep_whitespace: whether runs of spaces and those at the ends of a line count; by default as in `like`, or not.
        dummy_prefix: whether a line's first word is marked like words after a space; by default as in `like`, or yes.
        split_digits: whether every digit is a piece of its own; by default as in `like`, or not.
        min_count: leave out pieces that occur fewer times in the text.
        words: placeholders, tags, product names and the like (user-defined symbols): each is one token, counts in
            `size`, and is found in a text as it stands.
        max_lost_lines: the share of lines that the vocabulary may change and `like` gives back; a warning names fewer.
        field: the column of the text in JSON lines, data sets and tables.

    Raises:
        UserError: the text cannot be read, or does not support the size; or more lines would be lost.
    """
    require_whole("size", size, 1, MAX_VOCABULARY_SIZE)
    require_whole("min_count", min_count, 1, optional=True)
    old = None if like is None else vocabulary_of(like)
    if kind is None:
        kind = "unigram" if old is None else kind_like(old)
    one_of("kind", kind, get_args(VocabularyKind))
    if normalization is not None:
        one_of("normalization", normalization, get_args(NormalizationName))
    if not isinstance(character_coverage, int | float) or not 0 < character_coverage <= 1:
        message = f"expected a number above 0 and at most 1, found {shown(character_coverage)}"
        raise ArgumentError(message, where="character_coverage")
    require_share("max_lost_lines", max_lost_lines)
    lines = sampled(text_lines(text, field))
    learnt = learn(
        lines,
        kind=kind,
        size=size,
        character_coverage=character_coverage,
        byte_fallback=kind in SENTENCEPIECE_KINDS if byte_fallback is None else byte_fallback,
        like=old,
        normalization=normalization,
        keep_whitespace=keep_whitespace,
        dummy_prefix=dummy_prefix,
        split_digits=split_digits,
        words=words_of(words),
        min_count=min_count,
    )
    warn_of(words_beyond_limit(learnt, lines.sample))
    if old is not None:
        warn_of(lost_lines(old, learnt, lines.sample, max_lost_lines))
    return learnt


def warn_of(loss: str) -> None:
    """Warn of a loss unless its description is empty."""
    if loss:
        warnings.warn(loss, LossWarning, stacklevel=3)  # the caller of the function that calls this one


def lost_lines(old: Tokenizer, new: Tokenizer, lines: Iterable[str], max_lost_lines: float) -> str:
    """What the new vocabulary loses, for `warn_of`. Raises ArgumentError above this share of the lines."""
    return lost_text(old, new, lines).warning(max_lost_lines, "max_lost_lines", ArgumentError)


def extend(
    vocabulary: VocabularyLike,
    text: Text,
    *,
    add: int,
    min_count: int = MIN_COUNT,
    side: SideName = "decoder",
    words: Sequence[str] = (),
    prune: bool = False,
    max_lost_lines: float = MAX_LOST_LINES,
    field: str = "text",
) -> Tokenizer:
    """Add the text's most frequent subwords to a vocabulary, which retains its ids, as `subgraft vocab extend` does.

    Args:
        vocabulary: A vocabulary, a model, or a directory or hub id of either.
        text: Lines (`str`) and files or folders of text (`Path`), or a table.
        add: The number of new subwords.
        min_count: The minimum number of occurrences of a new subword in the text.
        side: The side of the vocabulary, for a model with two.
        words: User-defined symbols, which come first: see `learn_vocabulary`.
        prune: Whether as many tokens go as come, if the text never uses them and none is merged from them. Ids change
            then, and other text may have more tokens.
        max_lost_lines: The share of lines that the result may change and the vocabulary gives back.
        field: The column of the text in JSON lines, data sets and tables.

    Raises:
        UserError: The text does not support so many, or more lines would be lost.
    """
    require_whole("add", add, 1, MAX_VOCABULARY_SIZE)
    require_whole("min_count", min_count, 1)
    require_share("max_lost_lines", max_lost_lines)
    if prune:
        text = text if isinstance(text, str | Path) or columns_of(text) else tuple(text)  # read twice
    characters: Counter[str] = Counter()
    old, lines = vocabulary_of(vocabulary, side), sampled(counted(text_lines(text, field), characters))
    extended = extend_vocabulary(old, lines, add, min_count, words_of(words))
    if prune:
        extended = prune_vocabulary(extended, text_lines(text, field), add)
    warn_of(remaining_unknown(extended, characters))
    warn_of(lost_lines(old, extended, lines.sample, max_lost_lines))
    return extended


def words_of(words: Sequence[str]) -> tuple[str, ...]:
    """The words of an argument. Raises ArgumentError for one string, whose every character would be a word."""
    if isinstance(words, str) or not all(isinstance(word, str) for word in words):
        raise ArgumentError(f"expected a list of words, found {shown(words)}", where="words")
    return tuple(words)


def trim(
    vocabulary: VocabularyLike,
    text: Text,
    *,
    min_count: int = 1,
    side: SideName = "decoder",
    max_lost_lines: float = MAX_LOST_LINES,
    field: str = "text",
) -> Tokenizer:
    """Drop subwords that the text uses fewer than `min_count` times, as `subgraft vocab trim` does.

    Args:
        vocabulary: A vocabulary, a model, or a directory or hub id of either.
        text: Lines (`str`) and files or folders of text (`Path`), or a table.
        min_count: Subwords used fewer times are dropped.
        side: The side of the vocabulary, for a model with two.
        max_lost_lines: The share of lines that the result may change and the vocabulary gives back.
        field: The column of the text in JSON lines, data sets and tables.

    Raises:
        UserError: The text is empty, or more lines would be lost.
    """
    require_whole("min_count", min_count, 1)
    require_share("max_lost_lines", max_lost_lines)
    old, lines = vocabulary_of(vocabulary, side), sampled(text_lines(text, field))
    trimmed = trim_vocabulary(old, lines, min_count)
    warn_of(lost_lines(old, trimmed, lines.sample, max_lost_lines))
    return trimmed


def vocabulary_of(source: VocabularyLike, side: SideName = "decoder") -> Tokenizer:
    """The vocabulary itself, of a side of a model, of a directory of either, or of a hub id (`str`)."""
    if isinstance(source, Tokenizer):
        return source
    if isinstance(source, str | Path):
        return load_vocabulary(source, side)
    from subgraft.interfaces.api.model import Model  # takes seconds to load

    if not isinstance(source, Model):
        message = f"expected a tokenizer, a model, a directory or a hub id, found {shown(source)}"
        raise ArgumentError(message, where="vocabulary")
    return _of_side(source.bundle.tokenizers, side)


def _of_side(tokenizers: Mapping[SideName, Tokenizer], side: SideName) -> Tokenizer:
    """The vocabulary of a side, or of the only side."""
    return tokenizers.get(side) or next(iter(tokenizers.values()))


def load_vocabulary(source: str | Path, side: SideName = "decoder") -> Tokenizer:
    """The vocabulary of a directory, or of a side of a model: a directory or, as text, a hub id or models:/NAME@ALIAS.

    A model of an unknown family has one vocabulary for both sides.
    """
    source = located(source)
    directory = Path(source)
    if directory.is_dir() and not (directory / "config.json").is_file():
        try:
            return Tokenizer.load(directory)
        except UserError as error:
            from subgraft.modeling.weights import ADAPTER, other_form

            if not (directory / ADAPTER).is_file():  # whose base has a vocabulary
                raise (other_form(directory) or error) from error
    from subgraft.modeling.families import is_known
    from subgraft.modeling.hub import SMALL_FILES, read_config, resolve_model
    from subgraft.modeling.tokenizers import load_tokenizers

    directory = resolve_model(source, SMALL_FILES)
    known = is_known(read_config(directory))
    return _of_side(load_tokenizers(directory), side) if known else Tokenizer.load(directory)


def text_lines(text: Text, field: str = "text") -> Iterator[str]:
    """Lines, and those of files, of which `field` is the column of the text, if they have columns.

    Raises UserError for one string, whose every character would be a line; for a string that names a file; where all
    strings look like names of files; for a column that is not there; and, once they are read, for files that are all
    empty.
    """
    if isinstance(text, str):
        raise UserError("expected lines or files, found one string", where="text", hint="Give a list, or a Path.")
    names: list[str] = []  # strings that look like names, until one is found that does not
    lines = False
    files, blank = list[str](), True
    for part in [text] if isinstance(text, Path) else _column(text, field):
        if isinstance(part, Path):
            files.append(str(part))
            for line in TextFiles(text_files_of("text", [part]), field).lines():
                blank = blank and not line.strip()
                yield line
            continue
        _require_line(part)
        if lines or not _NAME.fullmatch(part):
            lines = True
            yield from names
            yield part
            names = []
        else:
            names.append(part)
            if len(names) > _MAX_NAMES:
                break
    if names:
        raise _file_name_error(names[0], "looks like the name of a file, as all strings do")
    if files and blank and not lines:
        raise UserError("there is no text", where=" and ".join(files), hint="Give at least one line that is not blank.")


def _column(text: Iterable[str | Path], field: str) -> Iterable[str | Path]:
    """The lines of a table's column; anything else as it is."""
    if not (columns := columns_of(text)):
        return text
    require_column("text", field, columns)
    table: Any = text
    return chain.from_iterable(value.split("\n") for value in table[field] if isinstance(value, str))


def _require_line(part: object) -> None:
    if not isinstance(part, str):
        raise ArgumentError(f"expected lines or files, found {shown(part)}", where="text")
    if part.startswith("hf://"):
        raise _file_name_error(part, "names a data set")
    if _names_file(part):
        raise _file_name_error(part, "names a file")


def _names_file(line: str) -> bool:
    """Whether there is such a file; words without an ending or a folder are text, and are not looked for."""
    if len(line) > _MAX_NAME_LENGTH or not _WITH_ENDING.search(line):
        return False
    return os.path.isfile(line)  # noqa: PTH113  (Path.is_file raises for names that no file can have)


def _file_name_error(line: str, reason: str) -> UserError:
    shown = line if len(line) <= _MAX_SHOWN else f"{line[:_MAX_SHOWN]}…"
    hint = f"Give Path({shown!r}) for its lines."
    return UserError(f"expected lines of text, but {shown!r} {reason}", where="text", hint=hint)


def capacities(vocabulary: VocabularyLike, texts: Mapping[str, Text], field: str = "text") -> dict[str, Capacity]:
    """A vocabulary's capacity for each language's text: ALP, tokens, and unknown characters.

    Raises UserError, naming the language, where there is no text.
    """
    tokenizer = vocabulary_of(vocabulary)
    by_language = {}
    for language, text in texts.items():
        try:
            by_language[language] = capacity(tokenizer, text_lines(text, field))
        except UserError as error:
            raise UserError(error.what, where=error.where or language, hint=error.hint) from error
    return by_language
