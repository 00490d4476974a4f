"""Blind sheets of a run's outputs, and the scores of filled ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from subgraft.base.errors import ArgumentError, UserError
from subgraft.base.files import require_path
from subgraft.evaluation.human_evaluation.answers import read_answers
from subgraft.evaluation.human_evaluation.ratings import Ratings, rate
from subgraft.evaluation.human_evaluation.sheet import Form, Key, Material, Outputs, blind, write_sheets
from subgraft.interfaces.api.experiments import report_of
from subgraft.orchestration.store.outputs import new_directory, require_absent
from subgraft.pipeline.artifacts import read_lines, read_record

# The questions on each text, answered yes (1) or no (0); the answers sum to 0 to 4 (Ziegler et al. 2019, section 5.3).
QUESTIONS = ("grammatical", "without repetition", "consistent", "fits its source")
# The names of the files of outputs and inputs, by kind of evaluation.
_TEXT_FILES = (("hypotheses.txt", "sources.txt"), ("continuations.txt", "prompts.txt"))


def make_sheets(
    run: str,
    overrides: Sequence[str] = (),
    *,
    out: Path,
    key: Path,
    systems: Sequence[str] = (),
    questions: Sequence[str] = QUESTIONS,
    most: int = 1,
    items: int | None = None,
    judges: int = 5,
    seed: int = 1,
) -> Key:
    """Write a sheet for each judge into the directory `out`, and their key, private to this user, into the file `key`.

    Args:
        run: As in `report_of`.
        overrides: Of the experiment's settings.
        out: A directory; absent or empty.
        key: A file outside it.
        systems: Of the run; all if empty.
        questions: On each text.
        most: The highest answer; the lowest is 0.
        items: The number of sources, see `sheet.blind`.
        judges: The number of sheets.
        seed: Of the draw and of all orders.

    Raises:
        UserError: If the key would be among the sheets, or the run has no such systems or no finished report.
    """
    form = Form(tuple(questions), most)
    if require_path(key).absolute().is_relative_to(out.absolute()):
        hint = "Judges get the whole directory. Name a file outside it."
        raise ArgumentError("the key would lie among the sheets", where="key", hint=hint)
    require_absent(key)
    answer_key, texts = blind(_material(report_of(run, overrides), systems), form, items, seed)
    with new_directory(out) as staged:
        write_sheets(staged, answer_key, texts, judges)
        key.parent.mkdir(parents=True, exist_ok=True)
        answer_key.write(key)
    return answer_key


def score_sheets(key: Path, sheets: Sequence[Path]) -> Ratings:
    """Raises UserError with every mistake in the sheets."""
    answer_key = Key.read(key)
    return rate(answer_key, read_answers(sheets, answer_key))


def _material(report: Path, systems: Sequence[str]) -> Material:
    """The outputs of a report's systems, from their evaluations."""
    record = read_record(report)
    recipe = record["recipe"]
    names = list(dict.fromkeys(system["name"] for system in recipe["systems"]))
    if unknown := [name for name in systems if name not in names]:
        raise ArgumentError(
            f"the run has no system '{unknown[0]}'", where="systems", hint=f"It has: {', '.join(names)}."
        )
    outputs, directory = [], report
    for system in recipe["systems"]:
        if system["name"] in (systems or names):
            fingerprint = record["inputs"][system["inputs"]["evaluate"]]["fingerprint"]
            directory = report.parent.parent / "evaluate" / fingerprint
            outputs.append(Outputs(system["name"], system["seed"], read_lines(directory / _files(directory)[0])))
    sources = read_lines(directory / _files(directory)[1])
    return Material(recipe["name"], sources, read_lines(directory / "references.txt"), outputs)


def _files(directory: Path) -> tuple[str, str]:
    """The names of an evaluation's outputs and inputs. Raises UserError if the store no longer has it."""
    for files in _TEXT_FILES:
        if (directory / files[0]).is_file():
            return files
    hint = "Run the experiment again: missing artifacts are made again."
    raise UserError("the store no longer has this system's outputs", where=str(directory), hint=hint)
