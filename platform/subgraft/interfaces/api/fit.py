"""Fit a model in Python: what `subgraft fit` does, for files, lists, pandas frames and `datasets.Dataset`s."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from subgraft.base.errors import ArgumentError, UserError
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import MAX_LOST_LINES
from subgraft.interfaces.api.arguments import LanguagePair, located, pair_of, path_of, require_share, text_files_of
from subgraft.interfaces.api.inputs import (
    Pairs,
    TextSource,
    column_of_turns,
    labelled_file,
    pair_columns,
    pair_files,
    text_paths,
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
    from subgraft.interfaces.api.model import Model
    from subgraft.orchestration.store.events import Observer


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
        from subgraft.interfaces.api.model import load

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
                chat=stack.enter_context(text_paths("chat", chat, column_of_turns(chat))),
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
