"""What callers pass in Python (pairs, text, labelled examples) as the files that fits and finetunings read."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from subgraft.base.errors import ArgumentError, UserError
from subgraft.config.corpora import Languages
from subgraft.interfaces.api.arguments import columns_of, located, path_of, require_column, require_no_hub_name, shown

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


def column_of_turns(chat: TextSource) -> str:
    return "conversations" if "conversations" in columns_of(chat) else "messages"


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


def _several_splits(table: Mapping[Any, Any], expected: str, name: str) -> ArgumentError:
    hint = f"Give one of its splits, as in {name}[{next(iter(table), 'train')!r}]."
    return ArgumentError(f"expected {expected}, found a mapping of {', '.join(map(str, table))}", where=name, hint=hint)
