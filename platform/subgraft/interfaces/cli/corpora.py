"""subgraft corpora list | get | check."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.base.terminal_escaping import say
from subgraft.config.corpora import Cleaning, CorpusSource, Languages
from subgraft.data.sources.squad import Pairing
from subgraft.interfaces.cli.arguments import Commands, console, corpus_languages

# What the built-in corpus is in, and any folder with both.
USUAL = Languages(source="en", target="de")
# So many names or labels are listed one by one.
FEW = 6


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
            type=corpus_languages,
            metavar="SOURCE-TARGET",
            help="or one language, or A,B,C: of a folder, texts side by side; by default en-de, or all that it has",
        )
        one.set_defaults(command=command)
        if name == "get":
            one.add_argument("--out", type=Path, required=True, metavar="DIR", help="absent or empty")


def list_corpora(arguments: argparse.Namespace) -> None:
    from subgraft.base.terminal import Sheet
    from subgraft.data.sources.catalogue import available
    from subgraft.data.sources.paths import data_folder

    del arguments
    table = Sheet("corpus", "holds", "kind", "languages", "other fields", "train", "dev", "test")
    for found in available(data_folder()):
        sizes = (f"{found.segments[split]:,}" if split in found.segments else "" for split in ("train", "dev", "test"))
        table.add_row(found.name, found.holds, found.kind, _few(found.languages), " ".join(found.fields), *sizes)
    console().print(table)
    if data_folder() is None:
        say("Set SUBGRAFT_DATA to a folder of corpora to see those too.")


def get(arguments: argparse.Namespace) -> None:
    from subgraft.data.sources import catalogue

    asked = _asked(arguments)
    corpus = catalogue.get(
        asked.source, asked.languages, asked.cleaning, arguments.out, base=asked.base, pairing=asked.pairing
    )
    for split in corpus.splits:
        counts = ", ".join(f"{rule} {count:,}" for rule, count in corpus.counts[split].items())
        say(f"{split}: {counts}")
    say(f"written to {arguments.out}")


def check(arguments: argparse.Namespace) -> None:
    from subgraft.base.terminal import Sheet
    from subgraft.data.sources import catalogue

    asked = _asked(arguments)
    table = Sheet(
        "split", "field", "language", "segments", "documents", "words", "characters", "mean", "sha256", names=2
    )
    remarks: list[str] = []
    for found in catalogue.check(asked.source, asked.languages, asked.base, asked.pairing):
        what = found.language or f"{found.kind}{_classes(found.classes)}"
        documents = "" if found.documents is None else f"{found.documents:,}"
        text = (f"{found.words:,}", f"{found.characters:,}", f"{found.mean_characters:.1f}")
        digest = f"{found.sha256[:12]}{' as in MANIFEST.tsv' if found.declared else ''}" if found.sha256 else ""
        figures = text if found.kind == "text" else ("", "", "")
        table.add_row(found.split, found.field, what, f"{found.segments:,}", documents, *figures, digest)
        remarks += [f"{found.split}.{found.field}: {count:,} {kind}" for kind, count in sorted(found.unseen.items())]
    console().print(table)
    for remark in remarks:
        say(remark)


def _few(names: Sequence[str]) -> str:
    """All of a few names, and of many how many there are."""
    return " ".join(names) if len(names) <= FEW else f"{' '.join(names[:3])} … ({len(names)})"


def _classes(counts: Mapping[str, int] | None) -> str:
    if not counts:
        return ""
    if len(counts) > FEW:
        return f" of {len(counts):,} classes"
    return f" ({', '.join(f'{label} {count:,}' for label, count in sorted(counts.items()))})"


@dataclass(frozen=True)
class _Asked:
    """A corpus that was named, with all that says how to read and clean it."""

    source: CorpusSource
    languages: Languages | None
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
    given: Languages | tuple[str, ...] | None = arguments.languages
    if named not in ("everyday", "law"):
        return _Asked(*_folder(named, given), Cleaning(), Path.cwd())
    if isinstance(given, tuple):
        raise UserError("the built-in corpus is of two languages", where="--languages", hint="Give en-de or de-en.")
    return _Asked(CorpusSource(generated=named), given or USUAL, Cleaning(), Path.cwd())  # type: ignore[arg-type]


def _folder(named: str, given: Languages | tuple[str, ...] | None) -> tuple[CorpusSource, Languages | None]:
    """How the corpus of a folder is asked for: as its files tell, with the languages that are given or that it has."""
    from subgraft.data.sources.folders import recognised, restrict_to
    from subgraft.data.sources.paths import find

    place = find(named, Path.cwd())
    found = recognised(place) if place.is_dir() else None
    if found is None or (found.source.folder and isinstance(given, Languages)):
        return CorpusSource(folder=named), given if isinstance(given, Languages) else USUAL
    if given is not None:
        return (found.source, given) if isinstance(given, Languages) else (restrict_to(found.source, given), None)
    if found.source.folder and not found.fields and len(found.languages) <= 2:
        usual = {USUAL.source, USUAL.target} <= {*found.languages}
        pair = Languages(source=found.languages[0], target=found.languages[-1])
        return CorpusSource(folder=named), USUAL if usual else pair
    return found.source, None


def _configured(named: str) -> _Asked:
    from subgraft.data.tasks.pairings import pairing
    from subgraft.interfaces.cli.experiments import load_experiment

    path, _, name = named.rpartition(":")
    experiment = load_experiment(Path(path))
    if name not in experiment.corpora:
        raise UserError(f"no corpus '{name}'", where=path, hint=f"There is: {', '.join(experiment.corpora)}.")
    base = Path(path).absolute().parent
    languages = experiment.upstream_languages if name == experiment.upstream.corpus else experiment.languages
    paired = pairing(experiment.question_generation)
    return _Asked(experiment.corpora[name], languages, experiment.cleaning, base, paired)
