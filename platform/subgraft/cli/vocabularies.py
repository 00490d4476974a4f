"""subgraft vocab learn | compare | embed."""

from __future__ import annotations

import argparse
from itertools import chain
from pathlib import Path

from subgraft.cli.arguments import share, whole
from subgraft.cli.output import Commands, console, new_directory
from subgraft.errors import UserError
from subgraft.printed import say


def add_to(commands: Commands) -> None:
    group = commands.add_parser("vocab", help="learn and compare vocabularies").add_subparsers(required=True)
    learning = group.add_parser("learn", help="learn a vocabulary from text")
    learning.add_argument("--text", type=Path, nargs="+", required=True, metavar="FILE", help="UTF-8, plain or gz")
    learning.add_argument("--size", type=whole(1), required=True, help="number of pieces, special tokens included")
    learning.add_argument("--kind", choices=("unigram", "bpe", "wordpiece"), default="unigram", help="default: unigram")
    learning.add_argument("--like", metavar="MODEL", help="take over this model's special tokens and language codes")
    learning.add_argument(
        "--character-coverage",
        type=share,
        default=1.0,
        help="share of the text's characters that get pieces of their own (default 1.0)",
    )
    learning.add_argument(
        "--byte-fallback",
        action=argparse.BooleanOptionalAction,
        help="spell other characters in bytes, which take 256 pieces (default: yes, but for wordpiece, which cannot)",
    )
    learning.add_argument(
        "--min-count", type=whole(1), metavar="N", help="leave out pieces that the text uses fewer than N times"
    )
    learning.add_argument("--out", type=Path, required=True, metavar="DIR", help="absent or empty")
    learning.set_defaults(command=learn)
    comparing = group.add_parser("compare", help="the subword gap between two vocabularies")
    comparing.add_argument("upstream", help="a vocabulary or model directory, or a hub id")
    comparing.add_argument("downstream", type=Path, help="a vocabulary or model directory")
    comparing.add_argument("--text", type=Path, metavar="FILE", help="text to count tokens and cut words on")
    comparing.add_argument("--words", type=whole(0), default=20, help="over-segmented words to show (default 20)")
    comparing.set_defaults(command=compare)
    _add_embed(group)


def _add_embed(group: Commands) -> None:
    embedding = group.add_parser("embed", help="train static embeddings of a vocabulary's tokens on text")
    embedding.add_argument("--vocab", type=Path, required=True, help="a vocabulary directory")
    embedding.add_argument("--text", type=Path, nargs="+", required=True, metavar="FILE", help="UTF-8, plain or gz")
    embedding.add_argument(
        "--algorithm", choices=("skip-gram", "cbow", "fasttext"), default="fasttext", help="default: fasttext"
    )
    embedding.add_argument("--dimensions", type=whole(1), default=256, help="as the model's table (default 256)")
    embedding.add_argument("--epochs", type=whole(1), default=5, help="default 5")
    embedding.add_argument("--min-count", type=whole(1), default=5, help="rarer tokens get none (default 5)")
    embedding.add_argument("--seed", type=whole(0), default=1)
    embedding.add_argument("--out", type=Path, required=True, metavar="DIR", help="absent or empty")
    embedding.set_defaults(command=embed)


def learn(arguments: argparse.Namespace) -> None:
    from subgraft.text import reading
    from subgraft.vocabulary.learn import learn as learn_vocabulary

    like = None
    if arguments.like:
        from subgraft.models.tokenizers import load_tokenizers

        like = load_tokenizers(arguments.like)["decoder"]
    with new_directory(arguments.out) as out:
        tokenizer = learn_vocabulary(
            chain.from_iterable(reading.lines(path) for path in arguments.text),
            kind=arguments.kind,
            size=arguments.size,
            character_coverage=arguments.character_coverage,
            byte_fallback=arguments.kind != "wordpiece" if arguments.byte_fallback is None else arguments.byte_fallback,
            like=like,
            min_count=arguments.min_count,
        )
        tokenizer.save(out)
    say(f"{len(tokenizer):,} pieces written to {arguments.out}")


def compare(arguments: argparse.Namespace) -> None:
    from subgraft.cli.grafts import load_vocabulary
    from subgraft.text import reading
    from subgraft.vocabulary.compare import compare as compare_vocabularies
    from subgraft.vocabulary.compare import render

    lines = reading.lines(arguments.text) if arguments.text else None
    upstream, downstream = load_vocabulary(arguments.upstream), load_vocabulary(arguments.downstream)
    gap = compare_vocabularies(upstream, downstream, lines, arguments.words)
    if gap.text is not None and not gap.text.upstream.sentences:
        raise UserError("there is no text to compare on", where=str(arguments.text), hint="Give another --text.")
    console().print(render(gap))


def embed(arguments: argparse.Namespace) -> None:
    from subgraft.cli.grafts import load_vocabulary
    from subgraft.config.initialisers import StaticEmbeddingSettings
    from subgraft.initialisers.static_training import train_static
    from subgraft.text import reading

    settings = StaticEmbeddingSettings(
        dimensions=arguments.dimensions,
        epochs=arguments.epochs,
        min_count=arguments.min_count,
        seed=arguments.seed,
    )
    with new_directory(arguments.out) as out:
        lines = chain.from_iterable(reading.lines(path) for path in arguments.text)
        embeddings = train_static(lines, load_vocabulary(arguments.vocab), arguments.algorithm, settings)
        embeddings.save(out)
    known = int(embeddings.known.sum())
    say(f"{known:,} of {len(embeddings.known):,} tokens have a vector, written to {arguments.out}")
