"""Predictions of finetuned models: labels, numbers, tags, answers, choices and ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from subgraft.base.errors import ArgumentError
from subgraft.interfaces.api.arguments import LanguagePair, located, pair_of, shown
from subgraft.interfaces.api.outputs import Model
from subgraft.interfaces.api.shown import as_html, as_text
from subgraft.modeling.hub import read_config, require_model
from subgraft.modeling.inference.ctranslate2_directory import ExportedModel, is_exported
from subgraft.training.understanding.input_forms import InputForm
from subgraft.training.understanding.predictor import Prediction, Predictor
from subgraft.training.understanding.registry import task_of_model

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

# The rows of a printed table.
_SHOWN = 20
_WIDEST = 60


@dataclass(frozen=True)
class Predicted:
    """The predictions for some inputs, in their order.

    Attributes:
        task: What the model was finetuned for.
        inputs: What was asked.
        predictions: Of each input `text`, one line; `facts`, the same with scores; `cut`, whether the input was too
            long for the model.
    """

    task: str
    inputs: tuple[Any, ...]
    predictions: tuple[Prediction, ...]

    def __len__(self) -> int:
        return len(self.predictions)

    def __iter__(self) -> Iterator[Prediction]:
        return iter(self.predictions)

    def __getitem__(self, place: int) -> Prediction:
        return self.predictions[place]

    @property
    def texts(self) -> list[str]:
        """Each prediction in one line."""
        return [each.text for each in self.predictions]

    def frame(self) -> pd.DataFrame:
        """A row for each input, a column for each fact; a class has a column for its probability."""
        import pandas as pd

        rows = []
        for asked, prediction in zip(self.inputs, self.predictions, strict=True):
            row: dict[str, Any] = {"input": asked}
            for name, value in prediction.facts.items():
                by_class = isinstance(value, Mapping)
                row |= {f"p({label})": each for label, each in value.items()} if by_class else {name: value}
            rows.append(row)
        return pd.DataFrame(rows, columns=None if rows else ["input"])

    def table(self) -> Table:
        from subgraft.base.terminal import Sheet

        table = Sheet("input", "prediction")
        for asked, each in list(zip(self.inputs, self.texts, strict=True))[:_SHOWN]:
            table.add_row(_short(asked if isinstance(asked, str) else repr(asked)), _short(each))
        return table

    def __str__(self) -> str:
        return as_text(self.table()) + self._rest

    def _repr_html_(self) -> str:
        return as_html(self.table(), self._rest)

    @property
    def _rest(self) -> str:
        left_out = len(self) - _SHOWN
        return f"and {left_out:,} more" if left_out > 0 else ""


def predict(
    model: Model | Path | str,
    inputs: Sequence[Any],
    *,
    languages: LanguagePair | None = None,
    progress: Callable[[int], None] | None = None,
) -> Predicted:
    """Predict labels, tags, answers or ranks with a finetuned model.

    Args:
        model: One in memory, or a directory, a hub id, or models:/NAME@ALIAS; with a head for the task.
        inputs: By the task, texts; tuples of two texts; (question, passage); lists of words; (query, [candidate, …]);
            or objects with the fields of labelled files, such as {"text": "…", "entity": [0, 3]}.
        languages: Of models with language codes.
        progress: Called with the number of inputs done.

    Raises:
        UserError: The model has no such head, or an input is of another form.
    """
    if isinstance(inputs, str | bytes) or not isinstance(inputs, Sequence):
        hint = "Give [text]." if isinstance(inputs, str) else ""
        raise ArgumentError(f"expected a list of inputs, found {shown(inputs)}", where="inputs", hint=hint)
    asked = asked_model(model)
    values = [asked.form.of_value(value, f"input {number}") for number, value in enumerate(inputs, 1)]
    predictor = asked.predictor(None if languages is None else pair_of(languages))
    return Predicted(asked.task, tuple(inputs), tuple(predictor.predict(values, progress=progress)))


class AskedModel(NamedTuple):
    """A model that is to predict, of which no weights are read yet."""

    place: Model | Path
    task: str
    form: InputForm

    def predictor(self, languages: Any = None) -> Predictor:
        if isinstance(self.place, Model):
            return Predictor(self.place.bundle, languages or self.place.languages)
        return Predictor.load(self.place, languages)


def asked_model(model: Model | Path | str) -> AskedModel:
    """The model, and what it reads. Raises UserError where it has no head for predictions."""
    place: Model | Path
    facts: Any
    if isinstance(model, Model):
        place, facts = model, model.bundle.model
    elif is_exported(Path(located(model))):
        place = Path(located(model))
        facts = ExportedModel.open(place).settings.model
    else:
        place = require_model(located(model))
        facts = read_config(place)
    task = task_of_model(facts, "the model" if isinstance(model, Model) else str(model))
    return AskedModel(place, task.name, task.form)


def _short(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
