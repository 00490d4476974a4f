"""What a version of the code makes, to the byte: the settings and steps of all configurations, the generated pages, and
every file of a small experiment of each kind.

    python tests/same_results.py record OUT.json [--only NAME…]     (about ten minutes on one core)
    python tests/same_results.py compare BEFORE.json AFTER.json     (exit code 1 if anything differs)

Run both on one machine: other processors round otherwise. Plans of configurations read the corpora of SUBGRAFT_DATA, by
default those of `shared/data` in a folder above the checkout. Figures that no two runs share (seconds, speeds, memory,
the commit) are overwritten by constants before anything reads them, so that whole reports are compared too. Plots are
recorded as what they show, not as pixels: to draw them takes longer than all trainings.
`tests/support/recorded_experiments.py` has the experiments.
"""

from __future__ import annotations

import argparse
import difflib
import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TQDM_DISABLE", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "docs"))

from matplotlib.figure import Figure

import reference
from recorded_experiments import (
    ALLOCATION,
    ALLOCATIONS,
    EXPERIMENTS,
    NETWORK,
    STAND_INS,
    take_network,
    write_inputs,
)
from subgraft.base.errors import SubgraftError, UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.runtime import Runtime
from subgraft.contrib.allocation.session import AllocationPipeline, AllocationSession
from subgraft.contrib.allocation.settings import Allocation
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.search.space import grid, planned_trials, search_settings, template, trial_steps
from subgraft.experiments.search.study import ask, study_of
from subgraft.experiments.search.trial_results import TrialResult, Value
from subgraft.interfaces.cli import main as subgraft
from subgraft.orchestration.estimates.estimate import estimates
from subgraft.orchestration.execution.plan import describe, make_plan
from subgraft.orchestration.execution.worker import Job, perform
from subgraft.orchestration.store.provenance import Provenance
from subgraft.orchestration.store.record import RECORD, Record, content_digest, file_entries
from subgraft.orchestration.store.step import Step, in_order
from subgraft.orchestration.store.store import Store

REPOSITORY = Path(__file__).resolve().parent.parent
Entries = Iterator[tuple[str, Any]]
"""Parts of a record: names, and JSON."""
LINES_SHOWN = 12


def recordings(place: Path) -> dict[str, Callable[[], Entries]]:
    """What can be recorded, by name. place: the folder of inputs, which then has the store too."""
    return {
        "pages": pages,
        "configurations": partial(configurations, place),
        **{name: partial(experiment, place, name) for name in EXPERIMENTS},
        **{name: partial(allocation, place, name) for name in ALLOCATIONS},
    }


def pages() -> Entries:
    """The JSON schema, and the generated pages of docs/."""
    yield "schema", json.loads(_printed("schema"))
    for name, page in reference.PAGES.items():
        yield name, page().splitlines()


def configurations(place: Path) -> Entries:
    """Settings and plan of every configuration, or why there is no plan here."""
    os.environ["SUBGRAFT_HOME"] = str(place / "empty")
    mirrors = (folder / "shared" / "data" for folder in REPOSITORY.parents)
    if mirror := next((folder for folder in mirrors if folder.is_dir()), None):
        os.environ.setdefault("SUBGRAFT_DATA", str(mirror))
    for config in sorted((REPOSITORY / "configs").glob("*.yaml")):
        changes = [change.replace("FOLDER", str(place)) for change in STAND_INS.get(config.stem, ())]
        is_allocation = "\ntotals:" in config.read_text(encoding="utf-8")
        settings = load(config, Allocation if is_allocation else Experiment, changes).model_dump(mode="json")
        yield f"{config.stem}/settings", settings
        try:
            if is_allocation:
                plan = _allocation_plan(config)
            else:
                plan = json.loads(_printed("plan", str(config), *changes, "--json"))
        except SubgraftError as error:
            plan = {"refused": str(error)}
        yield f"{config.stem}/plan", plan


def _allocation_plan(config: Path) -> Any:
    session = AllocationSession(load(config, Allocation, []), config.parent)
    return {"steps": [describe(entry) for entry in session.plan().entries]}


def _printed(*words: str) -> str:
    """The output of a command. Raises UserError with its message if it fails."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as errors:
        code = subgraft(list(words))
    if code:
        raise UserError(errors.getvalue())
    return out.getvalue()


def experiment(place: Path, name: str) -> Entries:
    """Estimates of the trainings of an experiment, and every step; with a search, its trials as well."""
    if name == NETWORK:
        _train_network(place)
    pipeline = planned(place, name)
    yield from _estimated(pipeline, place)
    yield from made([pipeline.report], place)
    if pipeline.experiment.search is not None:
        yield from _searched(pipeline, place)


def planned(place: Path, name: str) -> Pipeline:
    """The steps of an experiment."""
    return Pipeline(load(place / "config.yaml", Experiment, EXPERIMENTS[name]), place)


def planned_allocation(place: Path, name: str) -> AllocationPipeline:
    """The steps of an allocation."""
    config = place / "allocation.yaml"
    config.write_text(ALLOCATION, encoding="utf-8")
    return AllocationPipeline(load(config, Allocation, ALLOCATIONS[name]), place)


def allocation(place: Path, name: str) -> Entries:
    """Every step of an allocation."""
    yield from made([planned_allocation(place, name).report], place)


def _train_network(place: Path) -> None:
    (steps,) = planned(place, "network").systems
    assert steps.generator is not None
    list(made([steps.generator], place))
    take_network(Store(place / "home").path(steps.generator), place)


def _estimated(pipeline: Pipeline, place: Path) -> Entries:
    """What a plan foresees before anything is made."""
    store = Store(place / "empty")
    for each in estimates(store, make_plan(store, [pipeline.report]), Runtime()):
        work = {"memory": each.memory, "exact": each.exact, "updates": each.workload.updates}
        yield f"estimate/{each.step.name}", {"parameters": each.parameters._asdict(), **work}


def _searched(pipeline: Pipeline, place: Path) -> Entries:
    """The trials of a search, one after another in this process."""
    search, system, store = search_settings(pipeline), template(pipeline), Store(place / "home")
    points = grid(search.space, system) if search.sampler == "grid" else None
    results: list[TrialResult] = []
    for number in range(1, planned_trials(pipeline) + 1):
        values: dict[str, Value] = points[number - 1] if points else ask(study_of(search, results), search, system)[1]
        steps = trial_steps(pipeline, TrialResult(number, values))
        yield from made(steps.targets, place)
        objectives = steps.objectives(store)
        results.append(TrialResult(number, values, "finished", objectives))
        yield f"trial {number}", {"values": values, "objectives": objectives}


def made(targets: Iterable[Step], place: Path) -> Entries:
    """Make these steps and all that they need, and give the recipe, inputs, summary and files of each."""
    store = Store(place / "home")
    for step in in_order(list(targets)):
        if store.find(step) is None:
            perform(Job(step, store.home, Runtime(), 1, 0, False, Provenance()))
            _freeze(store.path(step))
        record = _record_of(store.path(step))
        yield (
            f"{step.stage.stage_name}/{step.name}",
            {
                "fingerprint": record.fingerprint,
                "revision": record.revision,
                "recipe": record.recipe,
                "inputs": {role: each["fingerprint"] for role, each in record.inputs.items()},
                "summary": record.summary,
                "files": {entry.path: entry.sha256 for entry in record.files},
            },
        )


def _record_of(artifact: Path) -> Record:
    return Record.from_json((artifact / RECORD).read_text(encoding="utf-8"))


def _show_instead_of_drawing(figure: Figure, file: IO[bytes], **_: Any) -> None:
    """Write what a figure shows, in place of its image."""
    content = {"size": list(figure.get_size_inches()), "panels": [_shown(panel) for panel in figure.axes]}
    file.write(json.dumps(content).encode())


def _shown(panel: Any) -> dict[str, Any]:
    legend = panel.get_legend()
    return {
        "words": [panel.get_title(), panel.get_xlabel(), panel.get_ylabel(), *_words(panel.texts)],
        "ticks": [_words(labels) for labels in (panel.get_xticklabels(), panel.get_yticklabels())],
        "legend": _words(legend.get_texts()) if legend else [],
        "lines": [line.get_xydata().tolist() for line in panel.lines],
        "patches": [each.get_patch_transform().transform(each.get_path().vertices).tolist() for each in panel.patches],
        "points": [each.get_offsets().tolist() for each in panel.collections],
        "areas": [[path.vertices.tolist() for path in each.get_paths()] for each in panel.collections],
        "images": [each.get_array().tolist() for each in panel.images],
    }


def _words(texts: Iterable[Any]) -> list[str]:
    return [text.get_text() for text in texts]


def _freeze(artifact: Path) -> None:
    """Overwrite the figures that no two runs share, in an artifact's JSON files and in its record."""
    for path in artifact.rglob("*.json"):
        if path.name.startswith(("curve", "evaluation")):
            before = json.loads(path.read_text(encoding="utf-8"))
            if (after := _timeless(before)) != before:
                path.write_text(json.dumps(after, indent=1), encoding="utf-8")
    record, files = _record_of(artifact), file_entries(artifact)
    frozen = replace(
        record,
        files=files,
        digest=content_digest(files),
        summary=_timeless(record.summary),
        seconds=1.0,
        finished="",
        provenance=Provenance(),
    )
    (artifact / RECORD).write_text(frozen.to_json(), encoding="utf-8")


def _timeless(value: Any, measured: bool = False) -> Any:
    """The same value with 1 for all seconds and speeds, and for the peak of memory."""
    if isinstance(value, Mapping):
        return {
            key: 1 if key == "peak_memory" else _timeless(inner, measured or key == "speed" or "second" in key)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_timeless(inner, measured) for inner in value]
    return 1.0 if measured and isinstance(value, float) else value


def record(names: Iterable[str]) -> dict[str, Any]:
    """Record these, or all if there are no names."""
    with _fixed_folder() as place, patch.object(Figure, "savefig", _show_instead_of_drawing):
        write_inputs(place)
        known = recordings(place)
        result: dict[str, Any] = {}
        for name in names or known:
            entries = {f"{name}/{part}": _without_places(entry, place) for part, entry in known[name]()}
            result |= entries
            print(f"{name}: {len(entries)}", flush=True)
    return result


@contextmanager
def _fixed_folder() -> Iterator[Path]:
    """The same folder in every recording, because fingerprints of reports depend on paths in configurations."""
    place = Path(tempfile.gettempdir()).resolve() / "subgraft-same-results"
    place.mkdir()  # fails while another recording runs
    try:
        yield place
    finally:
        shutil.rmtree(place)


def _without_places(entry: Any, place: Path) -> Any:
    """The entry as JSON has it, without the folders of this recording and of this checkout."""
    text = json.dumps(entry).replace(str(place), "FOLDER").replace(str(REPOSITORY), "REPOSITORY")
    return json.loads(text)


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """What differs between two records, in lines."""
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            yield f"gone: {name}"
        elif name not in before:
            yield f"new: {name}"
        elif before[name] != after[name]:
            yield f"differs: {name}"
            one, two = (_lines(each[name]) for each in (before, after))
            headed = list(difflib.unified_diff(one, two, n=0, lineterm=""))
            changed = [line for line in headed[2:] if not line.startswith("@@")]
            yield from (f"    {line}" for line in changed[:LINES_SHOWN])
            if len(changed) > LINES_SHOWN:
                yield f"    and {len(changed) - LINES_SHOWN} lines more"


def _lines(entry: Any) -> list[str]:
    return json.dumps(entry, indent=1, sort_keys=True, ensure_ascii=False).splitlines()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    recording = actions.add_parser("record")
    recording.add_argument("out", type=Path)
    names = recordings(Path())
    recording.add_argument("--only", nargs="+", choices=names, default=(), metavar="NAME", help=", ".join(names))
    comparing = actions.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    arguments = parser.parse_args()
    if arguments.action == "record":
        text = json.dumps(record(arguments.only), indent=1, sort_keys=True)
        arguments.out.write_text(text + "\n", encoding="utf-8")
        return 0
    before, after = (json.loads(path.read_text(encoding="utf-8")) for path in (arguments.before, arguments.after))
    differing = list(differences(before, after))
    print("\n".join(differing) if differing else f"no difference in {len(before)} entries")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
