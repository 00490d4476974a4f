"""Build a corpus: stream a source through the cleaning rules into a folder."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from subgraft.base.errors import UserError
from subgraft.base.progress import ProgressCallback
from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.settings_base import Split
from subgraft.data.sources import registry as sources
from subgraft.data.sources.kind import Pairing
from subgraft.data.sources.labelled import require_classes
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.sources.resolved_corpus import ResolvedSource
from subgraft.data.sources.texts import TextsSource
from subgraft.data.sources.together import TogetherSource
from subgraft.data.text import reading
from subgraft.data.text.cleaning import clean, squeeze, strip
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.document_cleaning import clean_documents, repeat_parts
from subgraft.data.text.fields import LABELS, TAGS, Field, Sides, count_documents, json_cell, text_places
from subgraft.data.text.held_out import HeldOut
from subgraft.data.text.tensors import write_rows

T = TypeVar("T")
_REPORT_EVERY = 10_000


def build(
    source: CorpusSource,
    languages: Languages | None,
    cleaning: Cleaning,
    out: Path,
    *,
    base: Path = Path(),
    pairing: Pairing | None = None,
    progress: ProgressCallback | None = None,
) -> Corpus:
    """Stream a source through the cleaning rules into a folder, absent or empty.

    Held-out splits are only stripped; training segments that occur in them are dropped if the rules require it. Texts
    that are not parallel are cleaned separately.

    Args:
        languages: The languages of a task, or None for all fields of the source.
        base: The folder of relative paths.
        pairing: How the task turns a question into a pair, for questions.

    Raises:
        UserError: As in resolving and reading, before anything is written; or cleaning leaves no segment.
    """
    resolved = sources.resolve(source, languages, base, pairing=pairing)
    parts = resolved.parts if isinstance(resolved, TextsSource) else {"": resolved}
    sizes = {name: {split: part.size(split) for split in part.splits} for name, part in parts.items()}
    require_empty(out)
    out.mkdir(parents=True, exist_ok=True)
    writers = {name: _Part(part, sizes[name], cleaning, out, bool(name), progress) for name, part in parts.items()}
    for name, part in writers.items():
        part.write()
        try:
            _require_segments(part.counts.get("train"), name)
            if part.source.labelled and "train" in part.source.splits:
                part.limit_to_training_classes()
        except UserError:
            for path in out.iterdir():
                path.unlink()
            raise
    corpus = _describe_corpus(resolved, writers, out)
    corpus.save()
    return corpus


def require_empty(out: Path) -> None:
    """Raises UserError unless `out` is absent or an empty folder."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError("exists and is not an empty folder", where=str(out))


def _describe_corpus(resolved: ResolvedSource, parts: Mapping[str, _Part], out: Path) -> Corpus:
    counts: dict[str, Counter[str]] = {split: Counter() for split in resolved.splits}
    field_sizes: dict[str, dict[str, int]] = {split: {} for split in resolved.splits}
    for name, part in parts.items():
        for split, split_counts in part.counts.items():
            counts[split].update(split_counts)
            field_sizes[split][name] = split_counts["kept"]
    documented_parts = [part for part in parts.values() if part.source.documented]
    aligned = not isinstance(resolved, TextsSource)
    return Corpus(
        directory=out,
        fields=resolved.fields,
        generated=resolved.generated,
        sizes={split: counts[split]["kept"] for split in resolved.splits},
        counts={split: dict(sorted(counts[split].items())) for split in resolved.splits},
        identity=resolved.identity(),
        aligned=aligned,
        documented=tuple(field.name for part in documented_parts for field in part.source.fields),
        field_sizes={} if aligned else field_sizes,
        classes={name: tuple(sorted(labels)) for part in parts.values() for name, labels in part.classes.items()},
    )


def _require_segments(counts: Counter[str] | None, name: str) -> None:
    if counts is None or counts["kept"]:
        return
    report = ", ".join(f"{rule}: {count:,}" for rule, count in counts.items() if count)
    suffix = f" of {name}" if name else ""
    raise UserError(f"cleaning leaves no training segment{suffix} ({report})", where="cleaning")


@dataclass
class _Part:
    """Writes a source into the folder: a complete corpus, or one of several texts that are not parallel.

    Attributes:
        alone: Whether it is one of several texts that are not parallel.
        counts: Per split, the segments read, kept and dropped.
        classes: The classes in the training segments of each field that has classes.
    """

    source: ResolvedSource
    sizes: Mapping[Split, int]
    cleaning: Cleaning
    out: Path
    alone: bool
    progress: ProgressCallback | None
    counts: dict[Split, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    classes: dict[str, set[str]] = field(default_factory=dict)

    def write(self) -> None:
        fields, labelled = self.source.fields, self.source.labelled
        held_out = HeldOut(compare_whole=labelled)
        texts = text_places(fields)
        inputs = [index for index, field in enumerate(fields) if labelled and field.is_input]
        # The training split comes last, because it must not contain the text of the others.
        for split in reversed(self.source.splits):
            multipliers = (
                self.source.multipliers if isinstance(self.source, TogetherSource) and split == "train" else ()
            )
            size, progress = self.sizes[split], self.progress
            if split == "train":
                raw = self.source.read_numbered(split) if multipliers else self.source.read(split)  # type: ignore[attr-defined]
                segments, counts = report_progress(raw, size, split, progress), self.counts[split]
                if self.cleaning.squeeze and not labelled and not any(field.fixes_text for field in fields):
                    segments = squeeze(segments, self.cleaning.squeeze, counts, texts)
                if self.source.documented and self.cleaning.of_documents:
                    segments = clean_documents(segments, self.cleaning, counts, texts, self.out)
                segments = clean(segments, self.cleaning, held_out, counts, texts, folder=self.out, inputs=inputs)
                segments = (
                    repeat_parts(segments, multipliers, counts, self.out, self.source.documented)
                    if multipliers
                    else segments
                )
            else:
                numbered = report_progress(self.source.read_parts(split), size, split, progress)
                segments = _collect_held_out(numbered, held_out, self.counts[split], texts)
            self._write(count_documents(segments, self.counts[split]) if self.source.documented else segments, split)
            self.counts[split].update(self.source.remarks(split))
        # In the order of the splits, not in the order of writing.
        self.counts = {split: self.counts[split] for split in self.source.splits}

    def limit_to_training_classes(self) -> None:
        """Drop dev and test examples of classes without a training example, and such types of an entity; tags stay.

        Raises UserError for a split without other examples, and for fewer than two training classes.
        """
        class_fields = [field for field in self.source.fields if field.has_classes]
        for class_field in class_fields:
            require_classes(class_field, self.classes[class_field.name], "cleaning")
            for split in (split for split in self.source.splits if split != "train"):
                limited = _limit_to_classes(
                    class_field, self.out / f"{split}.{class_field.name}", self.classes[class_field.name]
                )
                self.counts[split].update(limited.counts)
                if (dropped := len(limited.unknown)) == self.counts[split]["kept"]:
                    what = f"no example has a {class_field.name} that occurs in training text ({limited.examples})"
                    raise UserError(what, where=f"{split} split", hint="Are the labels of this split withheld?")
                self.counts[split]["kept"] -= dropped
                for other in self.source.fields if dropped else ():
                    _drop_lines(self.out / f"{split}.{other.name}", limited.unknown)

    def _write(self, segments: Iterable[Sides], split: Split) -> None:
        fields, rows = self.source.fields, dict[int, list[int]]()
        classes = {index: set[str]() for index, field in enumerate(fields) if field.has_classes}
        with ExitStack() as stack:
            writers: list[Callable[[str], object]] = []
            for index, field in enumerate(fields):
                if field.kind == "tensor":
                    selected = rows[index] = []
                    writers.append(lambda cell, selected=selected: selected.append(int(cell)))  # type: ignore[misc]
                else:
                    writers.append(_line_writer(stack, self.out / f"{split}.{field.name}"))
            if self.source.documented:
                name = f"{split}.{fields[0].name}.documents" if self.alone else f"{split}.documents"
                writers.append(_line_writer(stack, self.out / name))
            for cells in segments:
                for write, cell in zip(writers, cells, strict=True):
                    write(cell)
                for index, seen in classes.items():
                    seen.update(fields[index].classes(cells[index]))
        if split == "train":
            self.classes = {fields[index].name: seen for index, seen in classes.items()}
        for index, selected in rows.items():
            name = fields[index].name
            write_rows(self.source.tensor(split, name), name, selected, self.out / f"{split}.{name}.safetensors")


def _line_writer(stack: ExitStack, path: Path) -> Callable[[str], object]:
    handle = stack.enter_context(path.open("w", encoding="utf-8", newline="\n"))
    return lambda cell: handle.write(f"{cell}\n")


def _collect_held_out(
    segments: Iterable[tuple[int, Sides]], held_out: HeldOut, counts: Counter[str], texts: Sequence[int]
) -> Iterator[Sides]:
    for part, raw in segments:
        cells = strip(raw, counts)
        counts["read"] += 1
        counts["kept"] += 1
        held_out.add(tuple(cells[at] for at in texts), part)
        yield cells


def report_progress(segments: Iterable[T], size: int, what: str, progress: ProgressCallback | None) -> Iterator[T]:
    """Yield the segments, `size` in total, and report progress."""
    for done, segment in enumerate(segments, 1):
        yield segment
        if progress and (done % _REPORT_EVERY == 0 or done == size):
            progress(done, size, what)


# Classes in dev and test that do not occur in training text, so that no model can predict them.


@dataclass(frozen=True)
class _LimitedLines:
    """The result of limiting the lines of a field to classes of training text.

    Attributes:
        unknown: The numbers, from 0, of lines without such a class, which are dropped.
        counts: Numbers of dropped examples, of removed types, and of unknown tags.
        examples: Some of the unknown classes, for messages.
    """

    unknown: frozenset[int]
    counts: Counter[str]
    examples: str


def _limit_to_classes(field: Field, path: Path, classes: Collection[str]) -> _LimitedLines:
    """Find lines with classes that training text lacks.

    Unknown types of an entity with several types are removed from the file; its line is unknown if no type remains.
    Sentences with unknown tags stay, because every model gets such tags wrong; unless no sentence has a known tag.
    """
    unknown, counts, unknown_classes = set[int](), Counter[str](), dict[str, None]()
    lines = list(reading.lines(path))
    for number, line in enumerate(lines):
        of_line = field.classes(line)
        known = [name for name in of_line if name in classes]
        if len(known) == len(of_line):
            continue
        unknown_classes |= dict.fromkeys(name for name in of_line if name not in classes)
        if field.name == TAGS:
            counts["unknown_tags"] += len(of_line) - len(known)
        if not known or field.name not in (TAGS, LABELS):
            unknown.add(number)
        elif field.name == LABELS:
            lines[number] = json_cell(known)
            counts["unknown_types_removed"] += len(of_line) - len(known)
    if field.name == TAGS and len(unknown) < len(lines):
        unknown = set()
    counts["unknown_label"] += len(unknown)
    if counts["unknown_types_removed"]:
        _write_lines(path, lines)
    return _LimitedLines(frozenset(unknown), +counts, ", ".join(sorted(unknown_classes)[:5]))


def _drop_lines(path: Path, numbers: Collection[int]) -> None:
    """Rewrite a file without the lines of these numbers, counted from 0."""
    _write_lines(path, [line for number, line in enumerate(reading.lines(path)) if number not in numbers])


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as handle:
        handle.writelines(f"{line}\n" for line in lines)
