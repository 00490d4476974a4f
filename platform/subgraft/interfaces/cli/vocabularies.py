"""subgraft vocab: learn, extend, trim, compare, embed and capacity; and commands of contrib."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import subgraft
from subgraft.base.entries import imported
from subgraft.base.errors import UserError
from subgraft.base.limits import MAX_VOCABULARY_SIZE, MAX_WIDTH
from subgraft.base.security.terminal_escaping import say
from subgraft.config.settings_base import NormalizationName, SideName, VocabularyKind
from subgraft.data.text import reading
from subgraft.interfaces.cli.arguments import (
    MODEL_HELP,
    TEXT_HELP,
    Commands,
    add_max_lost_lines,
    add_out,
    add_text,
    add_text_field,
    console,
    number_in,
    selected,
    whole_number,
)
from subgraft.orchestration.store.outputs import new_directory, new_file, require_absent

if TYPE_CHECKING:
    from subgraft.subwords.vocabulary.capacity import Capacity

# What adds further commands of `subgraft vocab`.
ENTRIES = ("subgraft.contrib.allocation.commands:add_to",)


def add_to(commands: Commands) -> None:
    group = commands.add_parser("vocab", help="learn, extend, trim and compare vocabularies").add_subparsers(
        required=True
    )
    learning = group.add_parser("learn", help="learn a vocabulary from text")
    add_text(learning)
    size = whole_number(1, MAX_VOCABULARY_SIZE)
    learning.add_argument("--size", type=size, required=True, help="number of pieces, special tokens included")
    kind = "default: that of the --like model, or unigram"
    learning.add_argument("--kind", choices=get_args(VocabularyKind), help=kind)
    like = (
        "take over special tokens, language codes, normalisation, white space and digits of a model, or of a vocabulary"
    )
    learning.add_argument("--like", metavar="MODEL", help=like)
    coverage = "share of the text's characters that get pieces of their own (default 1.0)"
    share = number_in("above 0 and at most 1", lambda value: 0 < value <= 1)
    learning.add_argument("--character-coverage", type=share, default=1.0, help=coverage)
    fallback = "spell other characters in bytes, which take 256 pieces (unigram and bpe only; default: yes)"
    learning.add_argument("--byte-fallback", action=argparse.BooleanOptionalAction, help=fallback)
    _add_normalization(learning)
    fewer = "leave out pieces that the text uses fewer than N times"
    learning.add_argument("--min-count", type=whole_number(1), metavar="N", help=fewer)
    _add_words(learning)
    add_max_lost_lines(learning)
    add_out(learning)
    learning.set_defaults(command=learn)
    _add_changes(group)
    comparing = group.add_parser("compare", help="show the subword gap between two vocabularies")
    either = f"{MODEL_HELP}, whose decoder's vocabulary it is, or a vocabulary's directory"
    comparing.add_argument("upstream", metavar="OLD", help=f"the old vocabulary: {either}")
    comparing.add_argument("downstream", metavar="NEW", nargs="+", help="the new one, likewise, or several")
    text = "text or a folder of it; counts the tokens of both, and shows the words that the old one segments most"
    comparing.add_argument("--text", type=Path, metavar="FILE", help=text)
    add_text_field(comparing)
    words = "number of those words (default 20)"
    comparing.add_argument("--words", type=whole_number(0), default=20, help=words)
    page = "a page with lines of the text in coloured tokens, tokens by size, and words; needs --text"
    comparing.add_argument("--html", type=Path, metavar="FILE", help=page)
    comparing.set_defaults(command=compare)
    _add_embed(group)
    _add_capacity(group)
    for entry in ENTRIES:
        imported(entry)(group)


def _add_words(parser: argparse.ArgumentParser) -> None:
    words = "words that are single tokens, such as placeholders, tags and product names; one in each line"
    parser.add_argument("--words", type=Path, metavar="FILE", help=words)


@contextmanager
def _words(file: Path | None) -> Iterator[list[str]]:
    """The words of --words, without blank lines and white space around them; errors name the line of their word."""
    from subgraft.subwords.vocabulary.symbols import SymbolError

    numbers: dict[str, int] = {}
    for number, line in enumerate(reading.lines(file) if file else (), start=1):
        if word := line.strip():
            numbers.setdefault(word, number)
    try:
        yield list(numbers)
    except SymbolError as error:
        what = f"{error.word!r:.60} cannot be a single token: {error.what}"
        raise UserError(what, where=f"{file}:{numbers[error.word]}", hint=error.hint) from None


def _add_normalization(learning: argparse.ArgumentParser) -> None:
    table = "SentencePiece's table of characters (default: as the --like model; else nmt_nfkc for unigram and bpe)"
    learning.add_argument("--normalization", choices=get_args(NormalizationName), help=table)
    for option, meaning in (
        ("--keep-whitespace", "runs of spaces, and spaces at the ends of a line, count; unigram and bpe"),
        ("--dummy-prefix", "a line's first word is marked like words after a space; unigram and bpe"),
        ("--split-digits", "every digit is a piece of its own"),
    ):
        default = "yes" if option == "--dummy-prefix" else "no"
        meaning = f"{meaning} (default: as the --like model, else {default})"
        learning.add_argument(option, action=argparse.BooleanOptionalAction, help=meaning)


def _add_changes(group: Commands) -> None:
    for name, command, description, rare, count in (
        (
            "extend",
            extend,
            "add a task's subwords to a vocabulary that stays as it is",
            "add no subword that occurs",
            2,
        ),
        (
            "trim",
            trim,
            "drop the subwords of a vocabulary that a task's text never uses",
            "drop subwords that occur",
            1,
        ),
    ):
        parser = group.add_parser(name, help=description)
        parser.add_argument("vocabulary", metavar="MODEL", help=f"{MODEL_HELP}, or a vocabulary's directory")
        add_text(parser)
        if name == "extend":
            parser.add_argument(
                "--add", type=whole_number(1), required=True, metavar="N", help="number of new subwords"
            )
            _add_words(parser)
            pruned = "drop as many tokens, if the text never uses them and none is merged from them; changes ids"
            parser.add_argument("--prune", action="store_true", help=pruned)
        fewer = f"{rare} fewer than N times in the text (default {count})"
        parser.add_argument("--min-count", type=whole_number(1), default=count, metavar="N", help=fewer)
        whose = "whose vocabulary, in a model with two (default: decoder)"
        parser.add_argument("--side", choices=get_args(SideName), default="decoder", help=whose)
        add_max_lost_lines(parser)
        add_out(parser)
        parser.set_defaults(command=command)


def _add_embed(group: Commands) -> None:
    embedding = group.add_parser("embed", help="train static embeddings of a vocabulary's tokens on text")
    embedding.add_argument("--vocab", type=Path, required=True, help="a vocabulary directory")
    add_text(embedding)
    algorithms = ("skip-gram", "cbow", "fasttext")
    embedding.add_argument("--algorithm", choices=algorithms, default="fasttext", help="default: fasttext")
    width = "the width of the model's embeddings (default 256)"
    embedding.add_argument("--dimensions", type=whole_number(1, MAX_WIDTH), default=256, help=width)
    embedding.add_argument("--epochs", type=whole_number(1), default=5, help="default 5")
    embedding.add_argument(
        "--min-count", type=whole_number(1), default=5, help="rarer tokens get no embedding (default 5)"
    )
    embedding.add_argument("--seed", type=whole_number(0), default=1)
    add_out(embedding)
    embedding.set_defaults(command=embed)


def learn(arguments: argparse.Namespace) -> None:
    names = ("size", "kind", "like", "character_coverage", "byte_fallback", "min_count", "max_lost_lines")
    options = selected(arguments, *names, "field", "normalization", "keep_whitespace", "dummy_prefix", "split_digits")
    with new_directory(arguments.out) as out, _words(arguments.words) as words:
        tokenizer = subgraft.learn_vocabulary(arguments.text, **options, words=words)
        tokenizer.save(out)
    say(f"{len(tokenizer):,} pieces written to {arguments.out}")


def extend(arguments: argparse.Namespace) -> None:
    from subgraft.interfaces.api.vocabularies import load_vocabulary
    from subgraft.subwords.vocabulary.extend import lengthens_no_text

    with new_directory(arguments.out) as out, _words(arguments.words) as words:
        old = load_vocabulary(arguments.vocabulary, arguments.side)
        options = selected(arguments, "add", "min_count", "max_lost_lines", "prune", "field")
        extended = subgraft.extend(old, arguments.text, **options, words=words)
        extended.save(out)
        never_longer = lengthens_no_text(old, words) and not arguments.prune
    dropped = len(old) + arguments.add - len(extended)
    pruned = f" and {dropped:,} unused ones dropped" if arguments.prune else ""
    say(f"{arguments.add:,} subwords added to {len(old):,}{pruned}: {len(extended):,} written to {arguments.out}")
    if never_longer:
        say("no text that the vocabulary spells has more tokens than before: new merges apply after all old ones")
    else:
        why = "it may use what was dropped" if arguments.prune else "new pieces compete with old ones"
        say(f"another text may have more tokens than before: {why}")


def trim(arguments: argparse.Namespace) -> None:
    from subgraft.interfaces.api.vocabularies import load_vocabulary

    with new_directory(arguments.out) as out:
        old = load_vocabulary(arguments.vocabulary, arguments.side)
        trimmed = subgraft.trim(old, arguments.text, **selected(arguments, "min_count", "max_lost_lines", "field"))
        trimmed.save(out)
    say(f"{len(trimmed):,} of {len(old):,} subwords retained, written to {arguments.out}")


def compare(arguments: argparse.Namespace) -> None:
    if arguments.html:
        if not arguments.text:
            raise UserError("there is no text to show", where="--html", hint="Give --text FILE.")
        require_absent(arguments.html)
    vocabularies = (arguments.upstream, *arguments.downstream)
    compared = subgraft.compare_vocabularies(*vocabularies, **selected(arguments, "text", "words", "field"))
    console().print(compared.table())
    if arguments.html:
        with new_file(arguments.html) as out:
            out.write_text(compared.html(), encoding="utf-8")
        say(f"page written to {arguments.html}")


def embed(arguments: argparse.Namespace) -> None:
    from subgraft.config.initialisers import StaticEmbeddingSettings
    from subgraft.embeddings.initialisers.static_embeddings import train_static
    from subgraft.interfaces.api.vocabularies import load_vocabulary, text_lines

    settings = StaticEmbeddingSettings(**selected(arguments, "dimensions", "epochs", "min_count", "seed"))
    with new_directory(arguments.out) as out:
        lines = text_lines(arguments.text, arguments.field)
        embeddings = train_static(lines, load_vocabulary(arguments.vocab), arguments.algorithm, settings)
        embeddings.save(out)
    known = int(embeddings.known.sum())
    say(f"{known:,} of {len(embeddings.known):,} tokens have a vector, written to {arguments.out}")


def _add_capacity(group: Commands) -> None:
    measuring = group.add_parser(
        "capacity", help="measure a vocabulary's capacity for each language (ALP), on any text"
    )
    measuring.add_argument("vocabulary", metavar="MODEL", help=f"{MODEL_HELP}, or a vocabulary's directory")
    files = f"{TEXT_HELP}; LANG may be followed by a split, as in sw/dev=FILE"
    measuring.add_argument("--text", type=_language_file, nargs="+", required=True, metavar="LANG=FILE", help=files)
    add_text_field(measuring)
    measuring.set_defaults(command=capacity)


def _language_file(text: str) -> tuple[str, Path]:
    language, equals, file = text.partition("=")
    if not (language and equals and file):
        raise argparse.ArgumentTypeError(f"expected a language and a file, as in sw=sw.txt, found '{text}'")
    return language, Path(file)


def capacity(arguments: argparse.Namespace) -> None:
    from subgraft.interfaces.api.vocabularies import capacities

    texts: dict[str, Path] = {}
    for language, file in arguments.text:
        if language in texts:
            hint = "Give all of its text in one file, or name a split: sw/train=… sw/dev=…."
            raise UserError(f"the language '{language}' comes twice", where="--text", hint=hint)
        texts[language] = file
    _show(capacities(arguments.vocabulary, texts, arguments.field))


def _show(by_text: dict[str, Capacity]) -> None:
    from subgraft.base.terminal import Table

    headings = ["text", "sentences", "ALP", "pieces used", "tokens/word", "characters/token", "unknown", "bytes"]
    table = Table(*headings, box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for language, measured in by_text.items():
        table.add_row(
            language,
            f"{measured.sentences:,}",
            f"{measured.alp:.3f}",
            f"{measured.pieces:,}",
            f"{measured.tokens_per_word:.3f}",
            f"{measured.characters_per_token:.2f}",
            f"{measured.unknown:,} ({measured.unknown / max(1, measured.tokens):.2%})",
            f"{measured.byte_tokens:,}",
        )
    console().print(table)
    say("ALP: nats a sentence by the text's own unigram; comparable only on the same sentences.")
