"""subgraft corpora list | get | check."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.base.security.terminal_escaping import say
from subgraft.config.corpora import Cleaning, Languages
from subgraft.data.sources.kind import Pairing
from subgraft.data.sources.paths import find_file
from subgraft.data.sources.registry import CorpusSource
from subgraft.interfaces.api.experiments import load_experiment
from subgraft.interfaces.cli.arguments import Commands, add_json, add_out, console, corpus_languages, print_json

# The languages of the built-in corpora, and of any folder with both.
USUAL = Languages(source="en", target="de")
# The maximum number of names or labels in a cell; of more, the cell has the number.
MAX_IN_CELL = 6
# The maximum number of classes whose counts are listed below the table.
MAX_CLASSES = 24


def add_to(commands: Commands) -> None:
    group = commands.add_parser("corpora", help="list, fetch and check corpora").add_subparsers(required=True)
    listing = group.add_parser("list", help="list the built-in corpora, and those under SUBGRAFT_DATA")
    add_json(listing)
    listing.set_defaults(command=list_corpora)
    for name, command, description in (
        ("get", get, "clean a corpus into a folder of plain files"),
        ("check", check, "read a whole corpus and show its contents"),
    ):
        parser = group.add_parser(name, help=description)
        parser.add_argument(
            "corpus", help="a built-in domain (everyday, law), a folder, a TMX or XLIFF file, or CONFIG.yaml:NAME"
        )
        languages_help = (
            "or one language; for parallel texts in a folder also A,B,C (default: en-de, or all that it has)"
        )
        parser.add_argument("--languages", type=corpus_languages, metavar="SOURCE-TARGET", help=languages_help)
        parser.set_defaults(command=command)
        if name == "get":
            add_out(parser)
        else:
            add_json(parser)


def list_corpora(arguments: argparse.Namespace) -> None:
    from subgraft.base.terminal import Table
    from subgraft.data.sources.catalogue import available
    from subgraft.data.sources.paths import data_folder

    corpora = available(data_folder())
    if arguments.json:
        print_json(corpora=corpora)
        return
    table = Table("corpus", "holds", "kind", "languages", "other fields", "train", "dev", "test")
    for corpus in corpora:
        sizes = (
            f"{corpus.segments[split]:,}" if split in corpus.segments else "" for split in ("train", "dev", "test")
        )
        table.add_row(
            corpus.name, corpus.holds, corpus.kind, _abbreviate(corpus.languages), " ".join(corpus.fields), *sizes
        )
    console().print(table)
    if data_folder() is None:
        say("Set SUBGRAFT_DATA to a folder of corpora to see those too.")


def get(arguments: argparse.Namespace) -> None:
    from subgraft.data.sources import catalogue

    request = _request_of(arguments)
    corpus = catalogue.get(
        request.source, request.languages, request.cleaning, arguments.out, base=request.base, pairing=request.pairing
    )
    for split in corpus.splits:
        counts = ", ".join(f"{rule} {count:,}" for rule, count in corpus.counts[split].items())
        say(f"{split}: {counts}")
    say(f"written to {arguments.out}")


def check(arguments: argparse.Namespace) -> None:
    from subgraft.base.terminal import Table
    from subgraft.data.sources import catalogue
    from subgraft.data.text.cleaning import RULES

    request = _request_of(arguments)
    checked = catalogue.check(request.source, request.languages, request.base, request.pairing)
    if arguments.json:
        print_json(fields=checked)
        return
    table = Table(
        "split", "field", "language", "segments", "documents", "words", "characters", "mean", "sha256", names=2
    )
    remarks: list[str] = []
    for field in checked:
        content = field.language or f"{field.kind}{_classes(field.classes)}"
        documents = "" if field.documents is None else f"{field.documents:,}"
        text = (f"{field.words:,}", f"{field.characters:,}", f"{field.mean_characters:.1f}")
        digest = f"{field.sha256[:12]}{' as in MANIFEST.tsv' if field.declared else ''}" if field.sha256 else ""
        figures = text if field.kind == "text" else ("", "", "")
        table.add_row(field.split, field.field, content, f"{field.segments:,}", documents, *figures, digest)
        remarks += [f"{field.split}.{field.field}: {count:,} {kind}" for kind, count in sorted(field.unseen.items())]
        remarks += _many_classes(field.classes, f"{field.split}.{field.field}")
        for key, count in sorted(field.remarks.items()):
            remarks.append(f"{field.split}: {count:,} {RULES.get(key, key.replace('_', ' '))}")
    console().print(table)
    for remark in remarks:
        say(remark)


def _abbreviate(names: Sequence[str]) -> str:
    """All names, or if there are many, the first three and the number."""
    return " ".join(names) if len(names) <= MAX_IN_CELL else f"{' '.join(names[:3])} … ({len(names)})"


def _classes(counts: Mapping[str, int] | None) -> str:
    if not counts:
        return ""
    if len(counts) > MAX_IN_CELL:
        return f" of {len(counts):,} classes"
    return f" ({', '.join(f'{label} {count:,}' for label, count in sorted(counts.items()))})"


def _many_classes(counts: Mapping[str, int] | None, where: str) -> list[str]:
    """The most frequent of many classes, and the rarest one."""
    if not counts or len(counts) <= MAX_IN_CELL:
        return []
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"{label} {count:,}" for label, count in ordered[:MAX_CLASSES])
    label, count = ordered[-1]
    rest = (
        f", and {len(ordered) - MAX_CLASSES:,} others down to {label} {count:,}" if len(ordered) > MAX_CLASSES else ""
    )
    return [f"{where}: {listed}{rest}"]


@dataclass(frozen=True)
class _CorpusRequest:
    """A named corpus, with the settings to read and clean it."""

    source: CorpusSource
    languages: Languages | None
    cleaning: Cleaning
    base: Path
    pairing: Pairing | None = None


def _request_of(arguments: argparse.Namespace) -> _CorpusRequest:
    """The named corpus: in a configuration, built in, a bilingual file, or a folder."""
    from subgraft.data.sources.bilingual import is_bilingual

    name: str = arguments.corpus
    if ".yaml:" in name or ".yml:" in name:
        return _configured(name)
    if not name:
        raise UserError("expected a corpus, found ''", hint="`subgraft corpora list` shows what there is.")
    languages: Languages | tuple[str, ...] | None = arguments.languages
    if is_bilingual(Path(name)):
        return _CorpusRequest(*_bilingual(name, languages), Cleaning(), Path.cwd())
    if name not in ("everyday", "law"):
        return _CorpusRequest(*_folder(name, languages), Cleaning(), Path.cwd())
    if isinstance(languages, tuple):
        raise UserError("the built-in corpus is of two languages", where="--languages", hint="Give en-de or de-en.")
    return _CorpusRequest(CorpusSource(generated=name), languages or USUAL, Cleaning(), Path.cwd())


def _bilingual(name: str, languages: Languages | tuple[str, ...] | None) -> tuple[CorpusSource, Languages]:
    """The source and languages of a bilingual file; None for those that it names."""
    from subgraft.data.sources.bilingual import read_pairs

    if isinstance(languages, tuple):
        raise UserError("a bilingual file is read in two languages", where="--languages", hint="Give one as in en-de.")
    return CorpusSource(bilingual={"train": name}), languages or read_pairs(find_file(name, Path.cwd()), None)[0]


def _folder(name: str, languages: Languages | tuple[str, ...] | None) -> tuple[CorpusSource, Languages | None]:
    """The source and languages of a folder's corpus, from its files; `languages` selects some of them."""
    from subgraft.data.sources.folders import recognise_folder, restrict_to
    from subgraft.data.sources.paths import find

    path = find(name, Path.cwd())
    layout = recognise_folder(path) if path.is_dir() else None
    if layout is None or (layout.source.folder and isinstance(languages, Languages)):
        return CorpusSource(folder=name), languages if isinstance(languages, Languages) else USUAL
    if languages is not None:
        return (
            (layout.source, languages)
            if isinstance(languages, Languages)
            else (restrict_to(layout.source, languages), None)
        )
    if layout.source.folder and not layout.fields and len(layout.languages) <= 2:
        usual = {USUAL.source, USUAL.target} <= {*layout.languages}
        pair = Languages(source=layout.languages[0], target=layout.languages[-1])
        return CorpusSource(folder=name), USUAL if usual else pair
    return layout.source, None


def _configured(corpus: str) -> _CorpusRequest:
    """A corpus CONFIG.yaml:NAME."""
    from subgraft.data.tasks.question_generation import pairing

    path, _, name = corpus.rpartition(":")
    experiment = load_experiment(Path(path))
    if name not in experiment.corpora:
        raise UserError(f"no corpus '{name}'", where=path, hint=f"There is: {', '.join(experiment.corpora)}.")
    base = Path(path).absolute().parent
    languages = experiment.upstream_languages if name == experiment.upstream.corpus else experiment.languages
    return _CorpusRequest(
        experiment.corpora[name], languages, experiment.cleaning, base, pairing(experiment.question_generation)
    )
