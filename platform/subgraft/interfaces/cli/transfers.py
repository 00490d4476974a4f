"""subgraft generator, similar, embed, assemble, transfer: the method's parts on any model or vocabulary."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import subgraft
from subgraft.base.errors import UserError
from subgraft.base.security.terminal_escaping import say
from subgraft.data.text import reading
from subgraft.embeddings.methods.registry import names_with
from subgraft.interfaces.api.arguments import local_model, require_sound
from subgraft.interfaces.cli.arguments import (
    MODEL_HELP,
    Commands,
    ModelName,
    add_languages,
    add_out,
    console,
    new_language,
    selected,
    sides,
    whole_number,
)
from subgraft.orchestration.store.outputs import new_directory, new_file, require_absent
from subgraft.subwords.vocabulary.entry import Mark

if TYPE_CHECKING:
    from subgraft.subwords.vocabulary.entry import Entry
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer


def add_to(commands: Commands) -> None:
    _add_generators(commands)
    _add_similar(commands)
    _add_embed(commands)
    _add_assemble(commands)
    _add_transfer(commands)


def _add_similar(commands: Commands) -> None:
    similar = commands.add_parser("similar", help="list the tokens that are morphologically similar to unseen ones")
    similar.add_argument("--vocab", type=ModelName, required=True, help="a vocabulary or model directory, or a hub id")
    tokens = similar.add_mutually_exclusive_group(required=True)
    tokens.add_argument("--token", help="a subword with its mark, as in ▁word, ##ing or Ġword")
    tokens.add_argument("--tokens", type=Path, metavar="FILE", help="one subword per line")
    similar.add_argument("--max-similar", type=whole_number(1), default=10, help="maximum for each token (default 10)")
    similar.add_argument("--out", type=Path, metavar="FILE.tsv", help="default: a table on the screen")
    similar.set_defaults(command=find_similar)


def _add_embed(commands: Commands) -> None:
    embed = commands.add_parser("embed", help="generate embeddings of unseen tokens")
    embed.add_argument("--model", type=ModelName, required=True, help=MODEL_HELP)
    embed.add_argument("--generator", required=True, help="avg, or the directory of a trained generator")
    embed.add_argument("--tokens", type=Path, required=True, metavar="FILE", help="one subword per line")
    embed.add_argument("--side", choices=("encoder", "decoder"), default="decoder")
    embed.add_argument(
        "--max-similar",
        type=whole_number(1),
        default=10,
        help="for avg (default 10); a trained generator has its own value",
    )
    embed.add_argument("--out", type=Path, required=True, metavar="FILE.safetensors")
    embed.set_defaults(command=embed_tokens)


def _add_assemble(commands: Commands) -> None:
    assemble = commands.add_parser("assemble", help="make an encoder-decoder of a BERT")
    assemble.add_argument("--model", type=ModelName, required=True, help="a directory or hub id")
    assemble.add_argument("--seed", type=whole_number(0), default=1, help="seed of the new cross-attention")
    add_out(assemble)
    assemble.set_defaults(command=assemble_model)


def _add_transfer(commands: Commands) -> None:
    transfer = commands.add_parser("transfer", help="give a model another vocabulary")
    transfer.add_argument("--model", type=ModelName, required=True, help=MODEL_HELP)
    transfer.add_argument("--vocab", type=ModelName, required=True, help="a vocabulary or model directory, or a hub id")
    methods = "random, mean, avg, patt, focus, …; docs/guide-experiments.md has all (default: mean)"
    transfer.add_argument("--method", default="mean", help=methods)
    transfer.add_argument(
        "--generator", type=Path, metavar="DIR", help="the trained generator of att, patt and network"
    )
    transfer.add_argument("--static", type=Path, metavar="DIR", help="static embeddings, for methods that need them")
    transfer.add_argument("--distilled", type=Path, metavar="DIR", help="new embeddings that a step of a run trained")
    transfer.add_argument(
        "--donor", type=ModelName, metavar="MODEL", help="for donor: a model with the new tokens (default: --vocab)"
    )
    transfer.add_argument("--mapping", choices=("omp", "linear"), default="omp", help="for donor (default: omp)")
    transfer.add_argument(
        "--atoms", type=whole_number(1), help="for omp: shared tokens combined for each new one (default 64)"
    )
    transfer.add_argument("--ridge", type=float, help="for linear (default: the best on held-out shared tokens)")
    transfer.add_argument("--sides", type=sides, default=("decoder",), metavar="decoder|encoder,decoder")
    transfer.add_argument("--max-similar", type=whole_number(1), default=10, help="for avg (default 10)")
    transfer.add_argument("--seed", type=whole_number(0), default=1, help="seed of the random methods")
    lacking = (
        "languages that the model lacks, each with its code's initial embedding: mean, random-matched, or a language"
    )
    transfer.add_argument(
        "--new-languages", type=new_language, nargs="+", default=[], metavar="LANGUAGE=INITIALISER", help=lacking
    )
    add_out(transfer)
    transfer.set_defaults(command=transfer_model)


def _warn_of_marks(tokens: Iterable[str], mark: Mark) -> None:
    """Warn about a subword that begins with another vocabulary's word mark, which is read as text."""
    others = ("_", *(other.value for other in Mark if other is not mark))
    marked = ((token, other) for token in tokens for other in others if token.startswith(other) and token != other)
    token, other = next(marked, ("", ""))
    if token:
        name = "an ASCII underscore" if other == "_" else f"{other}, another vocabulary's mark"
        word = token.removeprefix(other) if mark is Mark.WORDPIECE else mark.value + token.removeprefix(other)
        note = f"note: '{token}' begins with {name}, read as text; a word's beginning is written {word}"
        say(note, to=sys.stderr)


def read_tokens(path: Path, tokenizer: Tokenizer) -> dict[str, Entry]:
    """Subwords of a file by their spelling. Raises UserError for a line that is not a subword."""
    tokens: dict[str, Entry] = {}
    for number, line in enumerate(reading.lines(path), 1):
        entry = tokenizer.parse(line)
        if entry is None:
            raise UserError(f"'{line}' is not a subword", where=f"{path}:{number}", hint="One subword per line.")
        tokens[line] = entry
    _warn_of_marks(tokens, tokenizer.mark)
    if not tokens:
        raise UserError("contains no token", where=str(path))
    return tokens


def find_similar(arguments: argparse.Namespace) -> None:
    from subgraft.base.terminal import Table
    from subgraft.interfaces.api.vocabularies import load_vocabulary
    from subgraft.subwords.similar_tokens.finder import SimilarRow, SimilarTokenFinder, similar_rows

    if arguments.out:
        require_absent(arguments.out)
    tokenizer = load_vocabulary(arguments.vocab)
    if arguments.tokens:
        entries = list(read_tokens(arguments.tokens, tokenizer).values())
    else:
        entry = tokenizer.parse(arguments.token)
        if entry is None:
            raise UserError(f"'{arguments.token}' is not a subword", where="--token")
        _warn_of_marks([arguments.token], tokenizer.mark)
        entries = [entry]
    similar = SimilarTokenFinder(tokenizer, arguments.max_similar).find(entries)
    rows = similar_rows(tokenizer, entries, similar)
    if arguments.out:
        with new_file(arguments.out) as out, out.open("w", encoding="utf-8") as file:
            file.write("\t".join(SimilarRow._fields) + "\n")
            file.writelines("\t".join(map(str, row)) + "\n" for row in rows)
        say(f"{len(entries):,} tokens written to {arguments.out}")
        return
    table = Table(*SimilarRow._fields)
    for row in rows:
        table.add_row(*map(str, row))
    console().print(table)


def embed_tokens(arguments: argparse.Namespace) -> None:
    from safetensors.torch import save_file

    from subgraft.embeddings.generators.generator import kind_of
    from subgraft.embeddings.initialisers.new_rows import InitialiserInputs
    from subgraft.embeddings.methods.registry import method_spec
    from subgraft.modeling.bundle import Bundle
    from subgraft.modeling.sides import side

    require_absent(arguments.out)
    bundle = Bundle.load(local_model(arguments.model))
    if arguments.side not in bundle.tokenizers:
        raise UserError(f"this model has no {arguments.side}", where=arguments.model)
    tokenizer = bundle.tokenizers[arguments.side]
    tokens = read_tokens(arguments.tokens, tokenizer)
    generator = require_sound(Path(arguments.generator)) if arguments.generator != "avg" else None
    method = kind_of(generator, arguments.side) if generator else "avg"
    request = InitialiserInputs(
        side=side(bundle.model, arguments.side),
        source=tokenizer,
        entries=list(tokens.values()),
        others=0,
        scale=0.0,
        seed=0,
        max_similar=arguments.max_similar,
        generator=generator,
    )
    rows = method_spec(method).new_rows(request)
    with new_file(arguments.out) as out:
        metadata = {"tokens": json.dumps(list(tokens), ensure_ascii=False)}
        save_file({"embeddings": rows.input.contiguous()}, out, metadata=metadata)
        out.chmod(0o644)  # safetensors leaves files that only their owner can read
    fallbacks = ", ".join(f"{count} by {kind}" for kind, count in rows.fallbacks.items() if count) or "none"
    say(f"{len(tokens):,} embeddings written to {arguments.out} (fallbacks: {fallbacks})")


def assemble_model(arguments: argparse.Namespace) -> None:
    from subgraft.pipeline.compute.models import assemble

    with new_directory(arguments.out) as out:
        bundle = assemble(arguments.model, arguments.seed)
        bundle.save(out)
    say(f"an encoder-decoder of {bundle.model.num_parameters():,} parameters written to {arguments.out}")


def transfer_model(arguments: argparse.Namespace) -> None:
    donor = None if arguments.donor is None else local_model(arguments.donor)
    inputs = selected(arguments, "generator", "static", "distilled", "mapping", "atoms", "ridge")
    options = selected(arguments, "method", "sides", "max_similar", "seed")
    new = dict(arguments.new_languages)
    with new_directory(arguments.out) as out:
        result = subgraft.transfer(
            arguments.model, arguments.vocab, donor=donor, new_languages=new, **inputs, **options
        )
        result.write(out)
    for side, report in result.reports.items():
        fallbacks = ", ".join(f"{count} by {kind}" for kind, count in report.fallbacks.items() if count) or "none"
        say(
            f"{side}: {report.seen:,} seen, {report.unseen:,} unseen, {report.special} special (fallbacks: {fallbacks})"
        )
    say(f"written to {arguments.out}")


def _add_generators(commands: Commands) -> None:
    group = commands.add_parser("generator", help="train generators of embeddings").add_subparsers(required=True)
    train = group.add_parser("train", help="train a generator on text like the model's pretraining text")
    train.add_argument("--model", type=ModelName, required=True, help=MODEL_HELP)
    text = train.add_mutually_exclusive_group(required=True)
    text.add_argument("--pairs", type=Path, nargs=2, metavar=("SOURCE", "TARGET"), help="for a model that translates")
    text.add_argument("--text", type=Path, metavar="FILE", help="for any other model; UTF-8, plain or gz")
    add_languages(train, "en-fr; for --text en-en", required=True)
    objectives = ("denoising", "masked", "causal")
    train.add_argument("--objective", choices=objectives, default="causal", help="for --text (default: causal)")
    train.add_argument("--kind", choices=names_with("trained"), default="network", help="default: network")
    both = "decoder|encoder,decoder"
    train.add_argument("--sides", type=sides, default=("decoder",), metavar=both, help="default: decoder")
    train.add_argument("--steps", type=whole_number(1), help="updates (default: the preset's)")
    train.add_argument("--preset", choices=("small", "gpu", "paper"), default="small", help="default: small")
    add_out(train)
    train.set_defaults(command=train_generator, resumes=True)


def train_generator(arguments: argparse.Namespace) -> None:
    options = selected(arguments, "languages", "out", "text", "objective", "kind", "sides", "steps", "preset")
    subgraft.train_generator(arguments.model, pairs=arguments.pairs and tuple(arguments.pairs), **options)
    say(f"written to {arguments.out}; `subgraft transfer --method {arguments.kind} --generator` takes it")
