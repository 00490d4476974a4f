"""subgraft corpora list | get | check."""

from __future__ import annotations

import argparse
from pathlib import Path

from subgraft.cli.arguments import languages
from subgraft.cli.output import Commands, console
from subgraft.errors import UserError
from subgraft.settings import Cleaning, CorpusSource, Languages


def add_to(commands: Commands) -> None:
    group = commands.add_parser("corpora", help="list, fetch and check corpora").add_subparsers(required=True)
    listing = group.add_parser("list", help="the built-in corpora, and those under SUBGRAFT_DATA")
    listing.set_defaults(command=list_corpora)
    for name, command, what in (
        ("get", get, "clean a corpus into a folder of plain files"),
        ("check", check, "read a corpus to its end and say what it holds"),
    ):
        one = group.add_parser(name, help=what)
        one.add_argument("corpus", help="a built-in domain (everyday, law), a folder, or CONFIG.yaml:NAME")
        one.add_argument(
            "--languages",
            type=languages,
            default="en-de",
            metavar="SOURCE-TARGET",
            help="or one language, of a monolingual folder (default: en-de)",
        )
        one.set_defaults(command=command)
        if name == "get":
            one.add_argument("--out", type=Path, required=True, metavar="DIR", help="absent or empty")


def list_corpora(arguments: argparse.Namespace) -> None:
    from rich.table import Table

    from subgraft.text.catalogue import available
    from subgraft.text.places import data_folder

    del arguments
    table = Table("corpus", "kind", "languages", "train", "dev", "test")
    for found in available(data_folder()):
        sizes = (f"{found.segments[split]:,}" if split in found.segments else "" for split in ("train", "dev", "test"))
        table.add_row(found.name, found.kind, " ".join(found.languages), *sizes)
    console().print(table)
    if data_folder() is None:
        print("Set SUBGRAFT_DATA to a folder of corpora to see those too.")


def get(arguments: argparse.Namespace) -> None:
    from subgraft.text import catalogue

    source, languages, cleaning, base = _asked(arguments)
    corpus = catalogue.get(source, languages, cleaning, arguments.out, base=base)
    for split in corpus.splits:
        counts = ", ".join(f"{rule} {count:,}" for rule, count in corpus.counts[split].items())
        print(f"{split}: {counts}")
    print(f"written to {arguments.out}")


def check(arguments: argparse.Namespace) -> None:
    from rich.table import Table

    from subgraft.text import catalogue

    source, languages, _, base = _asked(arguments)
    table = Table("split", "language", "segments", "words", "characters", "mean characters", "sha256")
    for side in catalogue.check(source, languages, base):
        figures = (f"{value:,}" for value in (side.segments, side.words, side.characters))
        digest = f"{side.sha256[:12]}{' as in MANIFEST.tsv' if side.declared else ''}" if side.sha256 else ""
        table.add_row(side.split, side.language, *figures, f"{side.mean_characters:.1f}", digest)
    console().print(table)


def _asked(arguments: argparse.Namespace) -> tuple[CorpusSource, Languages, Cleaning, Path]:
    """The corpus that was named: in a configuration, built in, or a folder."""
    named: str = arguments.corpus
    if ".yaml:" in named:
        return _configured(named)
    if not named:
        raise UserError("expected a corpus, found ''", mend="`subgraft corpora list` shows what there is.")
    if named in ("everyday", "law"):
        return CorpusSource(generated=named), arguments.languages, Cleaning(), Path.cwd()  # type: ignore[arg-type]
    return CorpusSource(folder=named), arguments.languages, Cleaning(), Path.cwd()


def _configured(named: str) -> tuple[CorpusSource, Languages, Cleaning, Path]:
    from subgraft.cli.experiments import load_experiment

    path, _, name = named.rpartition(":")
    experiment = load_experiment(Path(path))
    if name not in experiment.corpora:
        raise UserError(f"no corpus '{name}'", where=path, mend=f"There is: {', '.join(experiment.corpora)}.")
    base = Path(path).absolute().parent
    return experiment.corpora[name], experiment.languages, experiment.cleaning, base
