"""Scores of a finetuned model on a file of labelled examples, with intervals."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subgraft.base.errors import UserError
from subgraft.base.files import require_file
from subgraft.base.progress import ProgressCallback
from subgraft.config.corpora import Cleaning, Languages
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.labelled_files import LabelledFiles, rows
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.tasks.registry import LABELLED_TASKS
from subgraft.data.text.cleaning import dropped_in_words
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.dataset_files import TEST
from subgraft.evaluation.metrics.labelled import label_metric, label_score
from subgraft.evaluation.metrics.significance import estimate
from subgraft.interfaces.api.arguments import LanguagePair, pair_of, path_of
from subgraft.interfaces.api.inputs import labelled_file
from subgraft.interfaces.api.model import Model
from subgraft.interfaces.api.predict import PredictionModel, prediction_model

if TYPE_CHECKING:
    from subgraft.training.understanding.task import LabelledTask

# Every example counts, duplicates too.
_NO_CLEANING = Cleaning(max_characters=None, max_ratio=None, deduplicate=False, drop_held_out=False)


@dataclass(frozen=True)
class LabelScore:
    """A metric on the examples; low, high: its 95 % interval, by bootstrap over examples."""

    name: str
    value: float
    low: float
    high: float
    signature: str


@dataclass(frozen=True)
class LabelScores:
    """The scores of a model.

    Attributes:
        examples: The number of examples that were scored.
        left_out: The number of the file's other rows, by the reason why they cannot be scored.
        truncated: How many of the examples were too long for the model and lost their end.
    """

    examples: int
    scores: tuple[LabelScore, ...]
    left_out: Mapping[str, int]
    truncated: int

    @property
    def remark(self) -> str:
        """What was scored, in one line."""
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.left_out.items())
        left_out = f"; left out: {reasons}" if reasons else ""
        truncated = f"; {self.truncated:,} lost their end, too long for the model" if self.truncated else ""
        return f"{self.examples:,} scored{left_out}{truncated}"


def evaluate_labels(
    model: Model | Path | str,
    examples: Path | str,
    *,
    languages: LanguagePair | None = None,
    field: Mapping[str, str] | None = None,
    progress: ProgressCallback | None = None,
) -> LabelScores:
    """Score a finetuned model on a file of its task.

    Args:
        model: One in memory, or a directory, a hub id, or models:/NAME@ALIAS; with a head for the task.
        examples: CSV, tab-separated columns, JSON lines, Parquet, CoNLL, or SQuAD's JSON, with the columns of labelled
            corpora; or a data set of `datasets`, saved or of the hub, of whose splits test is read.
        languages: Of models with language codes.
        field: Columns of the file by role, as in {"label": "stars"}, where they have not their usual names.
        progress: Called with the examples done, their total, and a word for them.

    Raises:
        UserError: The model has no such head, or the file has other columns or unknown labels.
    """
    headed = prediction_model(model)
    path = path_of("examples", examples)
    pair = None if languages is None else pair_of(languages)
    with labelled_file(path, TEST) as (path,), tempfile.TemporaryDirectory(prefix="subgraft-") as folder:
        settings = _settings(path, headed, field or {})
        code = Languages(source=pair.source, target=pair.source) if pair else Languages(source="und", target="und")
        source = CorpusSource(labelled=settings)
        corpus = build(source, code, _NO_CLEANING, Path(folder) / "corpus", base=Path.cwd())
        predictor = headed.predictor(pair)
        _require_known_labels(corpus, predictor.task, path)
        statistics, truncated = predictor.statistics(corpus, "test", progress)
    scores = []
    for name, counts in statistics.items():
        metric = label_metric(name)
        score = label_score(metric, counts, predictor.task.judged.negative)
        interval = estimate(metric.score, counts[None], bounds=metric.bounds).interval
        scores.append(LabelScore(name, score.value, interval.low, interval.high, score.signature))
    return LabelScores(corpus.size("test"), tuple(scores), dropped_in_words(corpus.counts["test"]), truncated)


def _settings(path: Path, headed: PredictionModel, named: Mapping[str, str]) -> LabelledFiles:
    """How the file is read, by its ending. Raises UserError for a file of another task than the model's."""
    task = LABELLED_TASKS[headed.task]
    ending = path.name.removesuffix(".gz").rpartition(".")[2]
    values: dict[str, Any] = {"files": {"test": str(require_file(path).absolute())}}
    if named and ending in ("conll", "json"):
        raise UserError(f"the columns of .{ending} have no names", where=str(path), hint="Leave out `field`.")
    if ending == "conll":
        values["format"] = "conll"
    elif ending == "json":
        values |= {"format": "squad", **({task.chosen_by: True} if task.chosen_by else {})}
    else:
        values |= task.named() | {role: role for role in task.optional_columns if role in headed.form.texts}
        if any(len(names) > 1 for names in task.usual_names.values()):  # the file decides
            first = next(rows(path, LabelledFiles(**values)), None)
            values |= task.named(first.columns, first.where) if first else {}
        if unknown := named.keys() - {*task.columns, *task.optional_columns}:
            hint = f"It has {', '.join((*task.columns, *task.optional_columns))}."
            raise UserError(f"{task.name} has no column {min(unknown)}", where="field", hint=hint)
        values |= named
    settings = LabelledFiles(**values)
    if settings.task != task.name:
        raise UserError(f"the file is for {settings.task}, and the model for {task.name}", where=str(path))
    return settings


def _require_known_labels(corpus: Corpus, task: LabelledTask, path: Path) -> None:
    """Raises UserError for a label that the model does not have."""
    fields = [field for field in corpus.fields if field.has_classes]
    if not task.labels:
        return
    for field in fields:
        known: Sequence[str] = task.labels
        for number, line in enumerate(corpus.lines("test", field.name), 1):
            for label in field.classes(line):
                if label not in known:
                    hint = f"It has {', '.join(known[:10])}{', …' if len(known) > 10 else ''}."
                    raise UserError(
                        f"example {number}: the model has no label '{label:.40}'", where=str(path), hint=hint
                    )
