"""subgraft corpora list | get | check."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from subgraft.cli.arguments import languages
from subgraft.cli.output import Commands, console
from subgraft.config.corpora import Cleaning, CorpusSource, Languages
from subgraft.errors import UserError
from subgraft.text.squad import Pairing


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

    asked = _asked(arguments)
    corpus = catalogue.get(
        asked.source, asked.languages, asked.cleaning, arguments.out, base=asked.base, pairing=asked.pairing
    )
    for split in corpus.splits:
        counts = ", ".join(f"{rule} {count:,}" for rule, count in corpus.counts[split].items())
        print(f"{split}: {counts}")
    print(f"written to {arguments.out}")


def check(arguments: argparse.Namespace) -> None:
    from rich.table import Table

    from subgraft.text import catalogue

    asked = _asked(arguments)
    table = Table("split", "language", "segments", "words", "characters", "mean characters", "sha256")
    for side in catalogue.check(asked.source, asked.languages, asked.base, asked.pairing):
        figures = (f"{value:,}" for value in (side.segments, side.words, side.characters))
        digest = f"{side.sha256[:12]}{' as in MANIFEST.tsv' if side.declared else ''}" if side.sha256 else ""
        table.add_row(side.split, side.language, *figures, f"{side.mean_characters:.1f}", digest)
    console().print(table)


@dataclass(frozen=True)
class _Asked:
    """A corpus that was named, with all that says how to read and clean it."""

    source: CorpusSource
    languages: Languages
    cleaning: Cleaning
    base: Path
    pairing: Pairing | None = None


def _asked(arguments: argparse.Namespace) -> _Asked:
    """The corpus that was named: in a configuration, built in, or a folder."""
    named: str = arguments.corpus
    if ".yaml:" in named or ".yml:" in named:
        return _configured(named)
    if not named:
        raise UserError("expected a corpus, found ''", hint="`subgraft corpora list` shows what there is.")
    if named in ("everyday", "law"):
        return _Asked(CorpusSource(generated=named), arguments.languages, Cleaning(), Path.cwd())  # type: ignore[arg-type]
    return _Asked(CorpusSource(folder=named), arguments.languages, Cleaning(), Path.cwd())


def _configured(named: str) -> _Asked:
    from subgraft.cli.experiments import load_experiment
    from subgraft.tasks.pairings import pairing

    path, _, name = named.rpartition(":")
    experiment = load_experiment(Path(path))
    if name not in experiment.corpora:
        raise UserError(f"no corpus '{name}'", where=path, hint=f"There is: {', '.join(experiment.corpora)}.")
    base = Path(path).absolute().parent
    languages = experiment.upstream_languages if name == experiment.upstream.corpus else experiment.languages
    paired = pairing(experiment.question_generation)
    return _Asked(experiment.corpora[name], languages, experiment.cleaning, base, paired)
