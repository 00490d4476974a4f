"""Finetune one model on pairs or text, with the vocabularies that it has, such as new ones of `transfer`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subgraft.base.errors import ArgumentError
from subgraft.interfaces.api.arguments import LanguagePair, pair_of, path_of, require_whole, text_files_of
from subgraft.interfaces.api.experiments import experiment_of, store_step
from subgraft.interfaces.api.exports import on_disk
from subgraft.interfaces.api.inputs import Pairs, TextSource, pair_columns, pair_files, text_paths
from subgraft.interfaces.api.progress import CallbackObserver, ProgressCallback
from subgraft.interfaces.api.shown import as_html, as_text
from subgraft.orchestration.store.outputs import require_empty_directory

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from rich.table import Table

    from subgraft.config.corpora import Languages
    from subgraft.config.training import SelectName
    from subgraft.experiments.fit.base_model import BaseModelFacts
    from subgraft.experiments.fit.choices import Choice
    from subgraft.experiments.fit.split import Split
    from subgraft.interfaces.api.model import Model
    from subgraft.training.progress import CurvePoint

NAME = "finetuned"


@dataclass(frozen=True)
class Finetuned:
    """A finetuned model.

    Attributes:
        out: Its directory, which `load`, `translate` and `export` read.
        step: The update of its weights, the best on dev.
        curve: Scores on dev: before training, and at each evaluation.
    """

    out: Path
    step: int
    curve: tuple[CurvePoint, ...]

    def load(self) -> Model:
        from subgraft.interfaces.api.model import load

        return load(self.out)

    def frame(self) -> pd.DataFrame:
        """The curve: a row for each evaluation, a column for each score."""
        import pandas as pd

        from subgraft.training.progress import SCORES

        rows = [{name: point.values.get(name) for name in SCORES} for point in self.curve]
        return pd.DataFrame(rows, index=[point.step for point in self.curve]).dropna(axis="columns", how="all")

    def table(self) -> Table:
        from rich.table import Table

        from subgraft.training.progress import SCORES

        frame = self.frame()
        table = Table("update", *(SCORES[name] for name in frame.columns))
        for step, scores in zip(frame.index, frame.itertuples(index=False), strict=True):
            table.add_row(f"{step:,}{' *' if step == self.step else ''}", *(f"{score:.3f}" for score in scores))
        return table

    def plot(self) -> Figure:
        """Each score over the updates."""
        from subgraft.evaluation.reporting.drawing import new_figure
        from subgraft.training.progress import SCORES

        frame = self.frame()
        with new_figure(3.4 * len(frame.columns), 2.8) as figure:
            for axes, name in zip(figure.subplots(1, len(frame.columns), squeeze=False)[0], frame.columns, strict=True):
                axes.plot(frame.index, frame[name], marker="o")
                axes.axvline(self.step, linestyle=":", color="grey")
                axes.set(title=SCORES[name], xlabel="finetuning step")
            return figure

    def __str__(self) -> str:
        return as_text(self.table())

    def _repr_html_(self) -> str:
        return as_html(self.table())


def finetune(
    model: Model | Path | str,
    pairs: Pairs | None = None,
    *,
    out: Path | str,
    text: TextSource = (),
    field: str | Mapping[str, str] = "text",
    languages: LanguagePair | None = None,
    steps: int | None = None,
    learning_rate: float | None = None,
    seed: int = 1,
    progress: bool | ProgressCallback = True,
) -> Finetuned:
    """Finetune a model on pairs, or a language model on text, and save the weights that are best on dev.

    These have the highest chrF, of a language model the fewest bits per character. Pairs and text are split as `fit`
    splits them, and the settings are those of its trainings unless they are passed. Finished steps are in the store:
    stopped and called again, it continues.

    Args:
        model: One in memory, a directory, a hub id, or models:/NAME@ALIAS.
        pairs: Two files, one file (TMX, XLIFF, CSV, TSV, JSON lines, Parquet), (source, target) tuples, a
            `pandas.DataFrame` or a `datasets.Dataset` (see `Pairs`).
        out: The directory to write; absent or empty.
        text: The text of a language model, in place of pairs: a path or several, of files or folders (lines, JSON
            lines, CSV, TSV, Parquet), or a table.
        field: The column of the text in JSON lines and tables; of pairs in a table its columns, as in
            {"source": "english", "target": "german"}.
        languages: Of source and target, if the model's files do not name them.
        steps: Updates.
        learning_rate: Its maximum; embeddings are trained at the same rate.
        seed: Of the order of the data and of dropout.
        progress: Whether to print each step; or a function, as in `fit`.

    Raises:
        UserError: Unusable pairs, an unknown model, or an `out` that is not empty.
        OperationalError: The disk or a process failed; the same call continues.
    """
    from subgraft.base.terminal import Terminal

    out = path_of("out", out)
    require_empty_directory(out)
    require_whole("steps", steps, 1, optional=True)
    pair = None if languages is None else pair_of(languages)
    observers = [CallbackObserver(progress)] if callable(progress) else []
    console = Terminal() if progress is True else Terminal(file=StringIO())
    with ExitStack() as stack:
        directory, folder = stack.enter_context(on_disk(model)), stack.enter_context(tempfile.TemporaryDirectory())
        from subgraft.experiments.fit.base_model import BaseModelFacts

        if pairs is None:
            if not isinstance(field, str):
                raise ArgumentError("text has one column", where="field", hint="Give its name.")
            paths = stack.enter_context(text_paths("text", text, field))
            if not paths:
                raise ArgumentError("there are neither pairs nor text", where="text", hint="Give one of them.")
            paths = text_files_of("text", paths)
            facts = BaseModelFacts.of_language_model(str(model), str(directory))
            settings = _text_settings(facts, paths, field, Path(folder))
        elif not isinstance(text, tuple) or text:
            raise ArgumentError("a model is finetuned on pairs or on text", where="text", hint="Leave out one of them.")
        else:
            pair, files = stack.enter_context(pair_files(pairs, directory, pair, pair_columns(field)))
            facts = BaseModelFacts.find(str(model), str(directory))
            direction = facts.languages(pair)
            settings = _settings(facts, direction, _split(files, direction), Path(folder))
        for name, value in (("max_steps", steps), ("learning_rate", learning_rate)):
            if value is not None:
                settings["finetune"][name] = value
        if steps is not None:
            settings["finetune"].update(evaluate_at=sorted({1 + steps // 2, steps}), warmup_steps=1 + steps // 10)
        experiment = experiment_of({**settings, "seeds": [seed]}, NAME)
        store_step(experiment, lambda pipeline: pipeline.systems[0].finetune, out, console, observers)
    return _read_result(out, "likelihood" if pairs is None else None)


def _text_settings(facts: BaseModelFacts, paths: tuple[Path, ...], field: str, folder: Path) -> dict[str, Any]:
    """An experiment with one language model, and its text as files in the folder."""
    from subgraft.config.corpora import UNDETERMINED
    from subgraft.data.text.text_files import TextFiles
    from subgraft.experiments.fit.commented_yaml import plain
    from subgraft.experiments.fit.text_fit import (
        CLEANING,
        TextFit,
        TextTraining,
        characters_to_read,
        finetuning,
        split_text,
        text_files,
        text_separator,
    )

    text = split_text(TextFiles(paths, field))
    for name, lines in text_files(text, UNDETERMINED).items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    dev = [line for line, _ in text.dev]
    training = TextTraining.of(characters_to_read(sum(len(line) for line, _ in text.train)))
    return {
        "name": NAME,
        "preset": "small",
        "task": "continuation",
        "languages": {"source": UNDETERMINED, "target": UNDETERMINED},
        "corpora": {"text": {"folder": str(folder)}},
        "cleaning": CLEANING.model_dump(include={"max_characters", "max_ratio"}),
        "upstream": {
            "checkpoint": facts.checkpoint,
            "objectives": [{"kind": "causal", "separator": text_separator(facts, dev)[0]}],
        },
        "downstream": {"corpus": "text"},
        "systems": [{"name": NAME, "vocabulary": "upstream"}],
        "finetune": plain(finetuning(training, facts, TextFit.max_length)),
    }


def _split(files: tuple[Path, Path], languages: Languages) -> Split:
    from subgraft.config.corpora import Cleaning
    from subgraft.data.tasks.registry import TASKS
    from subgraft.experiments.fit.configuration import task_of
    from subgraft.experiments.fit.split import read_documents, split

    return split(read_documents(*files), Cleaning(**TASKS[task_of(languages)].defaults.get("cleaning", {})))


def _settings(facts: BaseModelFacts, languages: Languages, text: Split, folder: Path) -> dict[str, Any]:
    """An experiment with one system, and its text as files in the folder."""
    from subgraft.experiments.fit.choices import SELECT, choose
    from subgraft.experiments.fit.configuration import USUAL_LENGTH, task_of

    choice: Choice = choose(len(text.train), facts.parameters, quick=False)
    return {
        "name": NAME,
        "preset": "small",
        "task": task_of(languages),
        "languages": languages.model_dump(),
        "sides": ["encoder", "decoder"],
        "corpora": {"text": {"files": {name: _write_pairs(pairs, folder, name) for name, pairs in text.parts.items()}}},
        "upstream": {"checkpoint": facts.checkpoint, "objectives": [{"kind": facts.objective}]},
        "downstream": {"corpus": "text"},
        "systems": [{"name": NAME, "vocabulary": "upstream"}],
        "finetune": {
            "epochs": None,
            "max_steps": choice.steps,
            "evaluate_at": list(choice.evaluate_at),
            "batch_size": choice.batch_size,
            "learning_rate": choice.old_rate,
            "warmup_steps": choice.warmup_steps,
            "max_length": min(facts.max_length or USUAL_LENGTH, USUAL_LENGTH),
            "select": SELECT,
        },
    }


def _write_pairs(pairs: Sequence[tuple[str, str]], folder: Path, split: str) -> list[str]:
    paths = [folder / f"{split}.{side}" for side in ("source", "target")]
    for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [str(path) for path in paths]


def _read_result(out: Path, select: SelectName | None) -> Finetuned:
    from subgraft.experiments.fit.choices import SELECT
    from subgraft.training.progress import CURVE, CurvePoint, selected_weights

    curve = tuple(CurvePoint(**point) for point in json.loads((out / CURVE).read_text(encoding="utf-8")))
    return Finetuned(out, selected_weights(out, select or SELECT).step, curve)
