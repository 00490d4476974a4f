"""Predictions of finetuned models: labels, numbers, tags, answers, choices and ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from subgraft.base.errors import ArgumentError
from subgraft.interfaces.api.arguments import LanguagePair, located, pair_of, shown
from subgraft.interfaces.api.model import Model
from subgraft.interfaces.api.shown import as_html, as_text
from subgraft.modeling.hub import read_config, require_model
from subgraft.modeling.inference.ctranslate2_directory import ExportedModel, is_exported
from subgraft.training.understanding.input_forms import InputForm
from subgraft.training.understanding.predictor import Prediction, Predictor
from subgraft.training.understanding.registry import task_of_model

if TYPE_CHECKING:
    import pandas as pd

    from subgraft.base.terminal import Table

# The maximum rows of a printed table, and characters of a cell.
_MAX_ROWS = 20
_MAX_WIDTH = 60


@dataclass(frozen=True)
class Predicted:
    """The predictions for some inputs, in their order.

    Attributes:
        task: What the model was finetuned for.
        inputs: The inputs.
        predictions: Of each input `text`, one line; `facts`, the same with scores; `truncated`, whether the input
            was too long for the model.
    """

    task: str
    inputs: tuple[Any, ...]
    predictions: tuple[Prediction, ...]

    def __len__(self) -> int:
        return len(self.predictions)

    def __iter__(self) -> Iterator[Prediction]:
        return iter(self.predictions)

    def __getitem__(self, index: int) -> Prediction:
        return self.predictions[index]

    @property
    def texts(self) -> list[str]:
        """Each prediction in one line."""
        return [prediction.text for prediction in self.predictions]

    def frame(self) -> pd.DataFrame:
        """A row for each input, a column for each fact; a class has a column for its probability."""
        import pandas as pd

        rows = []
        for item, prediction in zip(self.inputs, self.predictions, strict=True):
            row: dict[str, Any] = {"input": item}
            for name, value in prediction.facts.items():
                by_class = isinstance(value, Mapping)
                row |= {f"p({label})": share for label, share in value.items()} if by_class else {name: value}
            rows.append(row)
        return pd.DataFrame(rows, columns=None if rows else ["input"])

    def table(self) -> Table:
        from subgraft.base.terminal import Table

        table = Table("input", "prediction")
        for item, text in list(zip(self.inputs, self.texts, strict=True))[:_MAX_ROWS]:
            table.add_row(_shorten(item if isinstance(item, str) else repr(item)), _shorten(text))
        return table

    def __str__(self) -> str:
        return as_text(self.table()) + self._rest

    def _repr_html_(self) -> str:
        return as_html(self.table(), self._rest)

    @property
    def _rest(self) -> str:
        left_out = len(self) - _MAX_ROWS
        return f"and {left_out:,} more" if left_out > 0 else ""


def predict(
    model: Model | Path | str,
    inputs: Sequence[Any],
    *,
    languages: LanguagePair | None = None,
    field: Mapping[str, str] = MappingProxyType({}),
    progress: Callable[[int], None] | None = None,
) -> Predicted:
    """Predict labels, tags, answers or ranks with a finetuned model.

    Args:
        model: One in memory, or a directory, a hub id, or models:/NAME@ALIAS; with a head for the task.
        inputs: By the task, texts; tuples of two texts; (question, passage); lists of words; (query, [candidate, …]);
            or objects with the fields of labelled files, such as {"text": "…", "entity": [0, 3]}.
        languages: Of models with language codes.
        field: The names of an object's fields by role, as in {"text": "review"}, where they have not their usual ones.
        progress: Called with the number of inputs done.

    Raises:
        UserError: The model has no such head, or an input is of another form.
    """
    if isinstance(inputs, str | bytes) or not isinstance(inputs, Sequence):
        hint = "Give [text]." if isinstance(inputs, str) else ""
        raise ArgumentError(f"expected a list of inputs, found {shown(inputs)}", where="inputs", hint=hint)
    headed = prediction_model(model)
    values = [
        headed.form.of_value(_by_role(value, field, f"input {number}"), f"input {number}")
        for number, value in enumerate(inputs, 1)
    ]
    predictor = headed.predictor(None if languages is None else pair_of(languages))
    return Predicted(headed.task, tuple(inputs), tuple(predictor.predict(values, progress=progress)))


def _by_role(value: Any, field: Mapping[str, str], where: str) -> Any:
    """An object with its fields by role. Raises ArgumentError for an input without these fields."""
    if not field:
        return value
    if not isinstance(value, Mapping):
        raise ArgumentError(f"expected an object with fields, found {shown(value)}", where=where)
    if missing := [name for name in field.values() if name not in value]:
        present = ", ".join(map(str, value)) or "none"
        raise ArgumentError(f"there is no field '{missing[0]}'; there are {present}", where=where)
    return {**value, **{role: value[name] for role, name in field.items()}}


class PredictionModel(NamedTuple):
    """A model with a head for predictions, whose weights are not read yet."""

    source: Model | Path
    task: str
    form: InputForm

    def predictor(self, languages: Any = None) -> Predictor:
        if isinstance(self.source, Model):
            return Predictor(self.source.bundle, self.source.languages_for(languages))
        return Predictor.load(self.source, languages)


def prediction_model(model: Model | Path | str) -> PredictionModel:
    """The model, and the form of its inputs. Raises UserError if it has no head for predictions."""
    source: Model | Path
    facts: Any
    if isinstance(model, Model):
        source, facts = model, model.bundle.model
    elif is_exported(Path(located(model))):
        source = Path(located(model))
        facts = ExportedModel.open(source).settings.model
    else:
        source = require_model(located(model))
        facts = read_config(source)
    task = task_of_model(facts, "the model" if isinstance(model, Model) else str(model))
    return PredictionModel(source, task.name, task.form)


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_WIDTH else f"{text[: _MAX_WIDTH - 1]}…"
