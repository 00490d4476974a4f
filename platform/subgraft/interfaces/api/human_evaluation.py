"""Blind sheets of a run's outputs, and what comes of filled ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.base.files import require_path
from subgraft.evaluation.human_evaluation.answers import read_answers
from subgraft.evaluation.human_evaluation.ratings import Ratings, rate
from subgraft.evaluation.human_evaluation.sheet import Form, Key, Material, Outputs, blind, write_sheets
from subgraft.interfaces.api.experiments import report_of
from subgraft.orchestration.store.outputs import new_directory, require_absent
from subgraft.pipeline.stages.report_systems import read_lines, read_record

# What a judge is asked of each text, yes (1) or no (0); the answers sum to 0 to 4 (Ziegler et al. 2019, section 5.3).
QUESTIONS = ("grammatical", "without repetition", "consistent", "fits its source")
# The files of what systems wrote and of what they read, by how they were measured.
_WRITTEN = (("hypotheses.txt", "sources.txt"), ("continuations.txt", "prompts.txt"))


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
    """A sheet for each judge into the directory `out`, and their key, for this user alone, into the file `key`.

    run: as of `report_of`.  systems: of the run; all where none is named.  items: see `sheet.blind`. Raises
    UserError where the key would lie with the sheets, or the run has no such systems or no finished report.
    """
    form = Form(tuple(questions), most)
    if require_path(key).absolute().is_relative_to(out.absolute()):
        hint = "Judges get the whole directory. Give another --key."
        raise UserError("the key would lie among the sheets", where=str(key), hint=hint)
    require_absent(key, "--key")
    made, shown = blind(_material(report_of(run, overrides), systems), form, items, seed)
    with new_directory(out) as place:
        write_sheets(place, made, shown, judges)
        key.parent.mkdir(parents=True, exist_ok=True)
        made.write(key)
    return made


def score_sheets(key: Path, sheets: Sequence[Path]) -> Ratings:
    """Raises UserError with every mistake in the sheets."""
    found = Key.read(key)
    return rate(found, read_answers(sheets, found))


def _material(report: Path, systems: Sequence[str]) -> Material:
    """What the systems of a report wrote, as their evaluations have it."""
    record = read_record(report)
    recipe = record["recipe"]
    known = list(dict.fromkeys(system["name"] for system in recipe["systems"]))
    if unknown := [name for name in systems if name not in known]:
        raise UserError(f"the run has no system '{unknown[0]}'", where="--system", hint=f"It has: {', '.join(known)}.")
    outputs, evaluated = [], report
    for system in recipe["systems"]:
        if system["name"] in (systems or known):
            fingerprint = record["inputs"][system["inputs"]["evaluate"]]["fingerprint"]
            evaluated = report.parent.parent / "evaluate" / fingerprint
            outputs.append(Outputs(system["name"], system["seed"], read_lines(evaluated / _files(evaluated)[0])))
    sources = read_lines(evaluated / _files(evaluated)[1])
    return Material(recipe["name"], sources, read_lines(evaluated / "references.txt"), outputs)


def _files(evaluated: Path) -> tuple[str, str]:
    """Of an evaluation. Raises UserError where the store no longer has it."""
    for files in _WRITTEN:
        if (evaluated / files[0]).is_file():
            return files
    hint = "Run the experiment again: what is gone is made again."
    raise UserError("the store no longer has what this system wrote", where=str(evaluated), hint=hint)
