"""Fit a model to pairs in Python: what `subgraft fit` does, for files, lists, pandas frames and `datasets.Dataset`s."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from subgraft.base.errors import ArgumentError, UserError
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import MAX_LOST_LINES
from subgraft.interfaces.api.arguments import (
    LanguagePair,
    columns_of,
    located,
    pair_of,
    path_of,
    require_column,
    require_no_hub_name,
    require_share,
    shown,
    text_files_of,
)
from subgraft.interfaces.api.progress import CallbackObserver, ProgressCallback
from subgraft.interfaces.api.shown import as_html, as_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from rich.table import Table

    from subgraft.base.terminal import Terminal
    from subgraft.experiments.fit.outcome import Outcome
    from subgraft.experiments.fit.session import FitSession
    from subgraft.interfaces.api.outputs import Model
    from subgraft.orchestration.store.events import Observer

# Two files, line by line; one bilingual file (TMX, XLIFF); (source, target) tuples; or a table (pandas.DataFrame,
# datasets.Dataset, a file of CSV, TSV, JSON lines or Parquet) with a column for each side, named source and target, by
# the languages' codes or by `field`, or a column `translation` of {code: text}. Of several directions, a mapping of
# these by name: {"de-en": …, "fr-en": …}.
Pairs: TypeAlias = "tuple[Path, Path] | Iterable[tuple[str, str]] | Any"
# A path or several, of files or folders; or a table (pandas.DataFrame, datasets.Dataset) with a column of texts.
TextSource: TypeAlias = "Path | str | Sequence[Path | str] | Any"
# The endings of tables of pairs.
_TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
_TRANSLATION = "translation"  # the column of the texts by language, in data sets of `datasets`


@dataclass(frozen=True)
class Fitted:
    """A finished fit.

    Attributes:
        out: Its folder, with `model`, `report` and `fit.yaml`.
        advised: The system whose model is in the folder: "old" (the model's vocabulary) or "own" (the task's); None,
            and no model, if no finetuning improved one.
        advice: The reason, in one sentence.
        outcome: Scores of all systems and seeds.
    """

    out: Path
    advised: str | None
    advice: str
    outcome: Outcome

    @property
    def model(self) -> Path:
        """The directory of the advised model, which `subgraft.load` and all commands read."""
        return self.out / "model"

    @property
    def report(self) -> Path:
        return self.out / "report" / "report.html"

    def load(self) -> Model:
        """The advised model in memory. Raises UserError if none is advised."""
        from subgraft.interfaces.api.outputs import load

        if self.advised is None:
            raise UserError(self.advice, where=str(self.out))
        return load(self.model)

    def table(self) -> Table:
        """The comparison, as the command prints it."""
        return self.outcome.table()

    def frame(self) -> pd.DataFrame:
        """The comparison as a pandas frame: a row for each system, means over seeds."""
        import pandas as pd

        return pd.DataFrame(self.outcome.rows()).set_index("system")

    def plot(self) -> Figure:
        """Scores on dev by finetuning step, a curve for each system."""
        from subgraft.evaluation.reporting.plots import learning_curves

        return learning_curves(self.outcome.data)

    def __str__(self) -> str:
        return f"{as_text(self.table())}{self.advice}"

    def _repr_html_(self) -> str:
        return as_html(self.table(), self.advice)


def fit(
    model: Path | str,
    pairs: Pairs | None = None,
    *,
    out: Path | str,
    languages: LanguagePair | None = None,
    text: TextSource = (),
    chat: TextSource = (),
    other: TextSource = (),
    field: str | Mapping[str, str] = "text",
    only_this_text: bool = False,
    characters: int | None = None,
    hours: float | None = None,
    quick: bool = False,
    labels: bool = False,
    max_lost_lines: float = MAX_LOST_LINES,
    progress: bool | ProgressCallback = True,
) -> Fitted:
    """Compare the model's vocabulary with one of the task's, both finetuned on the task, and save the better model.

    Args:
        model: A directory, a hub id, or models:/NAME@ALIAS.
        pairs: Two files, one file (TMX, XLIFF, CSV, TSV, JSON lines, Parquet), a data set (hf://datasets/OWNER/NAME, or
            a folder of `save_to_disk`), (source, target) tuples, a `pandas.DataFrame` or a `datasets.Dataset` (see
            `Pairs`); for one model of several directions a mapping of these, as in {"de-en": …, "fr-en": …}; with
            `labels` one file of labelled examples, (text, label) tuples, or a table with text
            and label, or value. None to fit a language model to `text`.
        out: An absent or empty folder, or that of the same fit, which continues.
        languages: Of source and target, if the model's files do not name them.
        text: Without pairs, the text of a language model: a path or several, of files or folders (lines, JSON lines,
            CSV, TSV, Parquet), a data set, or a table. With pairs, files with more text of the target language.
        chat: In place of text, conversations for an instruct model, which learns the answers: a path or several, of
            files or folders of JSON lines or Parquet, a data set, or a table with a column messages or conversations.
        other: Other text, on which a language model must not become worse.
        field: The column of the text in JSON lines and tables; with `labels` columns by role, as in
            {"text": "review", "label": "stars"}, where they have not their usual names; of pairs in a table, as in
            {"source": "english", "target": "german"}.
        only_this_text: Whether a language model is for this text alone, so that its vocabulary may be replaced.
        characters: How many characters each training of a language model reads; by default what suits the text.
        hours: In its place, how long the fit of a language model may take on this machine, evaluations included.
        quick: One seed, and half the steps and 100 test sentences, or at most 100,000 characters of text.
        labels: Whether the model is to predict the labels of texts.
        max_lost_lines: The share of the text's lines that the new vocabulary may change and the model's gives back.
        progress: Whether to print the data, the plan and each step; or a function that is called with a
            `StepProgress` as steps start, proceed and finish, while nothing is printed.

    Raises:
        UserError: Before anything is written: unusable pairs, an unknown model, a folder with other contents, a new
            vocabulary that loses more lines.
        OperationalError: The disk, the network or a process failed; the same call continues.
    """
    from subgraft.base.terminal import Terminal

    if pairs is not None:
        refuse_options_of_text(
            chat=isinstance(chat, str | Path) or len(chat) > 0,
            other=isinstance(other, str | Path) or len(other) > 0,
            only_this_text=only_this_text,
            characters=characters,
            hours=hours,
        )
    directions = _directions(pairs)
    if directions and languages is not None:
        raise ArgumentError("the names of pairs have the languages: leave it out", where="languages")
    requested = () if languages is None else (pair_of(languages),)
    observers = [CallbackObserver(progress)] if callable(progress) else []
    console = Terminal() if progress is True else Terminal(file=StringIO())
    with ExitStack() as stack:
        files: tuple[Path, ...] = ()
        session: FitSession
        if pairs is None:
            if not isinstance(field, str):
                raise ArgumentError("text has one column", where="field", hint="Give its name.")
            session = text_session(
                model,
                text=stack.enter_context(text_paths("text", text, field)),
                chat=stack.enter_context(text_paths("chat", chat, _column_of_turns(chat))),
                other=stack.enter_context(text_paths("other", other, field)),
                field=field,
                out=out,
                languages=requested,
                only_this_text=only_this_text,
                characters=characters,
                hours=hours,
                quick=quick,
                max_lost_lines=max_lost_lines,
                console=console,
            )
            return _fitted(session, out, observers)
        if labels:
            files = stack.enter_context(labelled_file(pairs))
        elif directions:
            assert isinstance(pairs, Mapping)  # their names are its keys
            for direction, direction_pairs in zip(directions, pairs.values(), strict=True):
                files += stack.enter_context(pair_files(direction_pairs, model, direction, pair_columns(field)))[1]
        else:
            first = requested[0] if requested else None
            pair, files = stack.enter_context(pair_files(pairs, model, first, pair_columns(field)))
            requested = () if pair is None else (pair,)
        session = fit_session(
            model,
            files,
            out=out,
            languages=directions or requested,
            text=(text,) if isinstance(text, str | Path) else text,
            quick=quick,
            labels=labels,
            columns={} if field == "text" else {"text": field} if isinstance(field, str) else field,
            max_lost_lines=max_lost_lines,
            console=console,
        )
        return _fitted(session, out, observers)


def refuse_options_of_text(**options: object) -> None:
    """Raise ArgumentError for an option that has a value, where there are pairs or labels."""
    if used := next((name for name, value in options.items() if value), None):
        raise ArgumentError("applies to text without pairs or labels", where=used, hint="Leave it out.")


def _fitted(session: FitSession, out: Path | str, observers: Sequence[Observer]) -> Fitted:
    outcome = session.run(observers)
    advised = None if outcome.advised is None else outcome.answer.system
    return Fitted(path_of("out", out), advised, str(outcome.answer), outcome)


@contextmanager
def text_paths(name: str, text: TextSource, field: str) -> Iterator[tuple[Path, ...]]:
    """The files of a text, one that is temporary for a table in memory."""
    if isinstance(text, str | Path):
        yield (path_of(name, text),)
        return
    if isinstance(text, Mapping):
        raise _several_splits(text, "texts", name)
    columns = columns_of(text)
    if not columns:
        yield tuple(path_of(name, path) for path in text)
        return
    require_column(name, field, columns)
    table: Any = text
    with tempfile.TemporaryDirectory(prefix="subgraft-") as folder:
        path = Path(folder) / "text.jsonl"
        with path.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps({field: _to_json_value(value)}) + "\n" for value in table[field])
        yield (path,)


def _column_of_turns(chat: TextSource) -> str:
    return "conversations" if "conversations" in columns_of(chat) else "messages"


def text_session(
    model: Path | str,
    *,
    text: Sequence[Path | str],
    out: Path | str,
    languages: Sequence[Languages],
    quick: bool,
    console: Terminal,
    chat: Sequence[Path | str] = (),
    other: Sequence[Path | str] = (),
    field: str | None = None,
    only_this_text: bool = False,
    characters: int | None = None,
    hours: float | None = None,
    max_lost_lines: float = MAX_LOST_LINES,
) -> FitSession:
    """The fit of a language model to files or folders of text or of conversations. Raises UserError as `fit` does."""
    if text and chat:
        raise ArgumentError("is fitted in place of `text`", where="chat", hint="Give one of them.")
    if not text and not chat:
        hint = (
            "`text` or `chat` for a language model, `pairs` for a translator, or `labels` for a classifier or tagger."
        )
        raise ArgumentError("a fit needs the text of a task", where="text", hint=hint)
    require_share("max_lost_lines", max_lost_lines)
    if len(languages) > 1:
        raise ArgumentError("the text is in one language", where="languages", hint="Give it once, as in en-en.")
    if hours is not None and characters is not None:
        raise ArgumentError("is another amount of training than `characters`", where="hours", hint="Give one of them.")
    if hours is not None and not 0 < hours < math.inf:
        raise ArgumentError(f"expected a number above zero, found {hours}", where="hours")
    directory = str(located(model))
    # These take seconds to load.
    from subgraft.experiments.fit.base_model import BaseModelFacts
    from subgraft.experiments.fit.chat_fit import ChatFit
    from subgraft.experiments.fit.text_fit import TextFit, TextFitRequest

    request = TextFitRequest(
        BaseModelFacts.of_language_model(str(model), directory),
        text_files_of("chat" if chat else "text", (*text, *chat)),
        languages[0] if languages else None,
        path_of("out", out),
        quick,
        max_lost_lines=max_lost_lines,
        other=text_files_of("other", other),
        field=field or "text",
        only_this_text=only_this_text,
        characters=characters,
        hours=hours,
    )
    return ChatFit(request, console) if chat else TextFit(request, console)


def fit_session(
    model: Path | str,
    files: tuple[Path, ...],
    *,
    out: Path | str,
    languages: Sequence[Languages],
    text: Sequence[Path | str],
    quick: bool,
    console: Terminal,
    labels: bool = False,
    columns: Mapping[str, str] = MappingProxyType({}),
    max_lost_lines: float = MAX_LOST_LINES,
) -> FitSession:
    """The fit of two files for each direction, or of one with labels. Raises UserError as `fit` does.

    languages: Of each direction in turn; of one, none if the model's files name them.
    """
    if labels and text:
        hint = "Leave it out: the vocabulary is learnt from the labelled texts."
        raise ArgumentError("labelled examples are fitted without more text", where="text", hint=hint)
    require_share("max_lost_lines", max_lost_lines)
    first = languages[0] if languages else None
    directions = () if labels else _require_directions(languages, len(files) // 2, text)
    directory = str(located(model))
    # These take seconds to load.
    from subgraft.experiments.fit.base_model import BaseModelFacts
    from subgraft.experiments.fit.session import Fit, FitRequest

    if labels:
        from subgraft.experiments.fit.label_fit import LabelFit

        facts = BaseModelFacts.read(str(model), directory)
        out = path_of("out", out)
        request = FitRequest(facts, files, first, out, quick, max_lost_lines=max_lost_lines, columns=columns)
        return LabelFit(request, console)
    facts = BaseModelFacts.find(str(model), directory)
    additional_text = tuple(path_of("text", path) for path in text)
    out = path_of("out", out)
    return Fit(FitRequest(facts, files, first, out, quick, additional_text, directions, max_lost_lines), console)


def _require_directions(
    languages: Sequence[Languages], count: int, text: Sequence[Path | str]
) -> tuple[Languages, ...]:
    """The directions, if there are several. Raises ArgumentError unless each of the pairs has its own."""
    if count == 1 and len(languages) < 2:
        return ()
    if len(languages) != count:
        hint = "Give `languages` for each of `pairs`, in the same order."
        expected = f"{count} pair{'s' * (count > 1)} of languages"
        raise ArgumentError(f"expected {expected}, found {len(languages)}", where="languages", hint=hint)
    names = [pair.name for pair in languages]
    if duplicates := [name for index, name in enumerate(names) if name in names[:index]]:
        hint = "Put its pairs into one file for each side."
        raise ArgumentError(f"{duplicates[0]} is named twice", where="languages", hint=hint)
    if same := [pair.name for pair in languages if pair.source == pair.target]:
        raise ArgumentError(
            f"{same[0]} is one language, which cannot be combined with other directions", where="languages"
        )
    if text:
        hint = "Leave it out, or fit one direction."
        raise ArgumentError(
            "more text is of one target language, and there are several directions", where="text", hint=hint
        )
    return tuple(languages)


def _directions(pairs: Any) -> tuple[Languages, ...]:
    """The directions that a mapping of pairs names, as in `de-en`; none for anything else."""
    if not isinstance(pairs, Mapping) or not pairs:
        return ()
    codes_of_names = [str(name).split("-") for name in pairs]
    if not all(len(codes) == 2 and all(codes) for codes in codes_of_names):
        return ()
    return tuple(pair_of((codes[0], codes[1])) for codes in codes_of_names)


def pair_columns(field: str | Mapping[str, str]) -> Mapping[str, str]:
    """The columns of pairs by role; none if they have their usual names. Raises ArgumentError for other roles."""
    if field == "text" or not field:
        return {}
    if isinstance(field, str) or field.keys() != {"source", "target"}:
        named = field if isinstance(field, str) else ", ".join(field)
        hint = "Name both columns, as in source=english and target=german."
        raise ArgumentError(f"pairs have the columns source and target, not {named}", where="field", hint=hint)
    return field


@contextmanager
def pair_files(
    pairs: Pairs, model: Path | str, languages: Languages | None, columns: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[Languages | None, tuple[Path, Path]]]:
    """The languages of pairs and their two files, which are temporary unless pairs are two files.

    Args:
        pairs: See `Pairs`.
        model: Its files may name the languages.
        languages: None for those that a bilingual file or the model's files name.
        columns: Of source and target in a table; empty for their usual names.

    Raises:
        UserError: As `read_pairs`, for a file of another form, and for columns where there are none.
    """
    from subgraft.data.sources.bilingual import is_bilingual, read_pairs
    from subgraft.modeling.tokenizers import checkpoint_languages

    path = Path(pairs) if isinstance(pairs, str | Path) else None
    if path is not None:
        named = languages or checkpoint_languages(Path(located(model)))
        if is_bilingual(path):
            _refuse_columns(columns, "a bilingual file")
            languages, pairs = read_pairs(path, named)
        else:
            pairs = _table_rows(path)
            with as_files(pairs, named, columns) as files:
                yield languages, files
            return
    with as_files(pairs, languages, columns) as files:
        yield languages, files


def _table_rows(path: Path) -> list[Mapping[Any, Any]]:
    """The rows of a table of pairs. Raises UserError for a file of another form."""
    from subgraft.base.files import require_path
    from subgraft.data.sources.labelled_files import LabelledFiles, rows
    from subgraft.data.text.dataset_files import dataset_rows, is_dataset

    if is_dataset(path):
        return [row for row, _ in dataset_rows(path)]
    require_no_hub_name(path)
    if not path.name.lower().removesuffix(".gz").endswith(_TABLES):
        hint = f"Give two files of lines, or one whose name ends in {', '.join(_TABLES)}, .tmx or .xliff."
        raise UserError("one file of pairs must be a table or bilingual", where=str(path), hint=hint)
    require_path(path)
    return [row.columns for row in rows(path, LabelledFiles(files={"train": str(path)}))]


def _refuse_columns(columns: Mapping[str, str], what: str) -> None:
    if columns:
        raise ArgumentError(f"{what} has no columns", where="field", hint="Leave it out.")


@contextmanager
def as_files(
    pairs: Pairs, languages: Languages | None, columns: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[Path, Path]]:
    """The two files of the pairs, which are temporary for pairs in memory."""
    if isinstance(pairs, tuple) and len(pairs) == 2 and all(isinstance(path, Path) for path in pairs):
        _refuse_columns(columns, "a file of lines")
        yield pairs  # type: ignore[misc]
        return
    with tempfile.TemporaryDirectory(prefix="subgraft-") as folder:
        files = Path(folder) / "source", Path(folder) / "target"
        lines = [list(side) for side in zip(*_in_memory(pairs, languages, columns), strict=True)] or [[], []]
        for path, side in zip(files, lines, strict=True):
            path.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
        yield files


@contextmanager
def labelled_file(examples: Any, split: str = "train") -> Iterator[tuple[Path]]:
    """The file of labelled examples, which is temporary for examples in memory or in a data set of `datasets`.

    split: That of a data set with several.
    """
    from subgraft.data.text.dataset_files import dataset_rows, is_dataset

    path_of_dataset = None
    if isinstance(examples, str | os.PathLike):
        path_of_dataset = Path(examples)
        if not is_dataset(path_of_dataset):
            yield (require_no_hub_name(path_of_dataset),)
            return
        examples = (row for row, _ in dataset_rows(path_of_dataset, split))
    with tempfile.TemporaryDirectory(prefix="subgraft-") as folder:
        path = Path(folder) / "examples.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for record in _labelled(examples):
                file.write(json.dumps(record, default=str) + "\n")
        try:
            yield (path,)
        except UserError as error:
            file_name, _, number = error.where.partition(f"{path}:")
            if error.where != str(path) and (file_name or not number):
                raise
            example = f"example {number}: " if number else ""
            if path_of_dataset is not None:
                raise UserError(f"{example}{error.what}", where=str(path_of_dataset), hint=error.hint) from None
            raise ArgumentError(f"{example}{error.what}", where="pairs", hint=error.hint) from None


def _labelled(examples: Any) -> Iterator[dict[str, Any]]:
    """Records of examples in memory. Raises ArgumentError for anything else."""
    from subgraft.data.text.dataset_files import with_class_names

    is_frame = hasattr(examples, "to_dict") and hasattr(examples, "columns")
    features = {} if is_frame else _features_of(examples)
    records = examples.to_dict("records") if is_frame else examples
    if isinstance(examples, Mapping):
        raise _several_splits(examples, "labelled examples", "pairs")
    if not isinstance(records, Iterable) or isinstance(records, bytes):
        raise ArgumentError(f"expected labelled examples, found {shown(examples)}", where="pairs")
    for number, record in enumerate(records, 1):
        if isinstance(record, tuple | list) and len(record) in (2, 3):
            target = "value" if isinstance(record[-1], float) else "label"
            names = ("text", target) if len(record) == 2 else ("text", "text_pair", target)
            record = dict(zip(names, record, strict=True))
        if not isinstance(record, Mapping):
            message = f"example {number}: expected a text and its label, found {shown(record)}"
            raise ArgumentError(message, where="pairs")
        values = {str(name): _to_json_value(value) for name, value in record.items()}
        yield with_class_names(values, features) if features else values


def _features_of(table: Any) -> Mapping[str, Any]:
    """The types of the columns of a `datasets.Dataset`; empty for anything else."""
    to_dict = getattr(getattr(table, "features", None), "to_dict", None)
    features = to_dict() if callable(to_dict) else {}
    return features if isinstance(features, Mapping) else {}


def _to_json_value(value: Any) -> Any:
    """A value of NumPy or pandas as one of JSON."""
    if isinstance(value, float) and value != value:  # a missing label
        return None
    return value.tolist() if hasattr(value, "tolist") else value


def _in_memory(pairs: Any, languages: Languages | None, columns: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Pairs of one line each. Raises ArgumentError for anything that is not a pair of texts."""
    if isinstance(pairs, Mapping):  # a DatasetDict, for example
        raise _several_splits(pairs, "pairs of texts", "pairs")
    names = [str(name) for name in getattr(pairs, "column_names", getattr(pairs, "columns", ()))]
    records = pairs.to_dict("records") if hasattr(pairs, "to_dict") and hasattr(pairs, "columns") else pairs
    if not isinstance(records, Iterable) or isinstance(records, str | bytes):
        raise ArgumentError(f"expected pairs of texts, found {shown(pairs)}", where="pairs")
    if not names and isinstance(records, Sequence) and records and isinstance(records[0], Mapping):
        names = [str(name) for name in records[0]]
    sides = _columns(names, languages, columns) if names else None
    if sides is None:
        _refuse_columns(columns, "a tuple")
    for number, record in enumerate(records, 1):
        if sides is not None:
            cells = record if columns or _TRANSLATION not in names else _by_code(record[_TRANSLATION], sides)
            texts = tuple(map(cells.get, sides))
        else:
            texts = tuple(record) if isinstance(record, tuple | list) else (record,)
        if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
            raise ArgumentError(f"pair {number}: expected two texts, found {shown(record)}", where="pairs")
        yield " ".join(texts[0].splitlines()), " ".join(texts[1].splitlines())


def _by_code(translation: Any, codes: Sequence[str]) -> Mapping[str, Any]:
    """The texts of a column `translation` by the codes of a model, whose en_XX is en. Raises ArgumentError for none."""
    if not isinstance(translation, Mapping):
        raise ArgumentError(f"expected texts by language, found {shown(translation)}", where="pairs")
    names = [code if code in translation else code.replace("_", "-").partition("-")[0] for code in codes]
    if missing := [name for name in names if name not in translation]:
        there = ", ".join(map(str, translation))
        hint = "Name two of them by `languages`."
        raise ArgumentError(f"the column {_TRANSLATION} has {there}, not {missing[0]}", where="pairs", hint=hint)
    return {code: translation[name] for code, name in zip(codes, names, strict=True)}


def _several_splits(table: Mapping[Any, Any], expected: str, name: str) -> ArgumentError:
    hint = f"Give one of its splits, as in {name}[{next(iter(table), 'train')!r}]."
    return ArgumentError(f"expected {expected}, found a mapping of {', '.join(map(str, table))}", where=name, hint=hint)


def _columns(names: Sequence[str], languages: Languages | None, columns: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of source and target, or the languages' keys in a column `translation`."""
    if columns:
        if missing := [column for column in columns.values() if column not in names]:
            raise ArgumentError(f"there is no column '{missing[0]}'; there are {', '.join(names)}", where="pairs")
        return columns["source"], columns["target"]
    codes = () if languages is None else (languages.source, languages.target)
    if _TRANSLATION in names:
        if not codes:
            hint = "Name source and target, as in en-fr."
            raise ArgumentError(f"the column {_TRANSLATION} has no direction", where="languages", hint=hint)
        return codes
    for sides in (("source", "target"), codes):
        if sides and set(sides) <= set(names):
            return sides
    if len(names) == 2:
        return tuple(names)
    expected = "source and target" + (f", or {codes[0]} and {codes[1]}" if codes else "")
    hint = "Name them by `field`, as in source=NAME and target=NAME."
    raise ArgumentError(f"expected the columns {expected}; there are {', '.join(names)}", where="pairs", hint=hint)
