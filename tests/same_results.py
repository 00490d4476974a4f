"""What a version of the code makes, to the byte: fingerprints of all configurations, and small trainings of all kinds.

    python tests/same_results.py record OUT.json     (some minutes on one core)
    python tests/same_results.py compare BEFORE.json AFTER.json

Run both on one machine: other processors round otherwise. A step is found again by its experiment and its name.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))

from small_experiments import TINY, finish, written
from subgraft.base.errors import SubgraftError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.pipeline import Pipeline
from subgraft.orchestration.store.step import in_order, sha256_of

SHORT = ("pretrain.epochs=4", "generator_training={max_steps: 6, batch_size: 400, precision: fp32}")
LEARNING = "{max_steps: 6, batch_size: 400, precision: fp32}"
EXPERIMENTS: dict[str, tuple[str, ...]] = {
    "translation": (
        *SHORT,
        f"token_distillation_training={LEARNING}",
        "static_embeddings={dimensions: 8}",
        "systems=[{name: plain, vocabulary: upstream}, {name: random, initialiser: random},"
        " {name: mean, initialiser: mean},"
        " {name: att, initialiser: att}, {name: patt+kd, initialiser: patt, kd_weight: 0.5},"
        " {name: attached, initialiser: patt, kd_weight: 0.5, tie_to_sources: true},"
        " {name: focus, initialiser: focus}, {name: token-distillation, initialiser: token-distillation},"
        " {name: tables-first, initialiser: mean, embeddings_only_fraction: 0.5},"
        " {name: sampled, vocabulary: upstream, pretraining: sampled},"
        " {name: none, pretraining: none}]",
        "finetune.embedding_learning_rate=0.01",
        "evaluation.upstream_sentences=3",
    ),
    "likelihood-matching": (
        *SHORT,
        f"likelihood_matching_training={LEARNING}",
        "systems=[{name: likelihood-matching, initialiser: likelihood-matching}]",
    ),
    "both-sides": (
        *SHORT,
        "sides=[encoder, decoder]",
        "generator.resegmentation.match=downstream",
        "generator.negatives=batch",
        "systems=[{name: plain, vocabulary: upstream}, {name: patt+kd, initialiser: patt, kd_weight: 0.5}]",
    ),
    "mbart-translation": (*SHORT, "model.family=mbart"),
    "denoising": (
        *SHORT,
        "model.family=mbart",
        "upstream.objectives=[{kind: denoising}]",
        "systems=[{name: plain, vocabulary: upstream}, {name: patt+kd, initialiser: patt, kd_weight: 0.5},"
        " {name: sampled, vocabulary: upstream, pretraining: sampled}]",
    ),
    "masked": (
        *SHORT,
        "model={family: bert, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16}",
        "upstream.objectives=[{kind: masked}]",
        "upstream.vocabulary={kind: wordpiece, size: 100}",
        "downstream.vocabulary={kind: wordpiece, size: 120}",
        "systems=[{name: plain, vocabulary: upstream}, {name: patt+kd, initialiser: patt, kd_weight: 0.5}]",
    ),
}


def fingerprints(repository: Path) -> dict[str, str]:
    """Of every step of every configuration that can be planned here, by CONFIG/STEP."""
    result: dict[str, str] = {}
    for config in sorted((repository / "configs").glob("*.yaml")):
        try:
            steps = in_order([Pipeline(load(config, Experiment, []), config.parent).report])
        except SubgraftError as error:  # its text or model is absent, or an allocation has a pipeline of its own
            print(f"{config.name} is left out: {error}", file=sys.stderr)
            continue
        result |= {f"{config.stem}/{step.stage.stage_name}/{step.name}": step.fingerprint for step in steps}
    return result


def results(place: Path) -> dict[str, dict[str, Any]]:
    """The fingerprint, file digests and summary of every step of the small experiments."""
    result: dict[str, dict[str, Any]] = {}
    for name, changes in EXPERIMENTS.items():
        folder = place / name
        folder.mkdir()
        pipeline, store = finish(written(folder, TINY), *changes)
        for step in in_order([pipeline.report]):
            record = store.find(step)
            assert record is not None
            result[f"{name}/{step.stage.stage_name}/{step.name}"] = {
                "fingerprint": step.fingerprint,
                "files": {entry.path: _digest(store.path(step) / entry.path, entry.sha256) for entry in record.files},
                "summary": _timeless(record.summary),
            }
        print(name, "made", flush=True)
    return result


def _digest(path: Path, sha256: str) -> str:
    """Of a file's content but for the time that things took; of a report nothing, as it shows that everywhere."""
    if path.parent.name == "plots" or path.name.startswith(("report.", "table.")):
        return "not compared"
    if path.name.startswith(("curve", "evaluation")):
        return sha256_of(_timeless(json.loads(path.read_text(encoding="utf-8"))))
    return sha256


def _timeless(value: Any) -> Any:
    if isinstance(value, Mapping):
        measured = ("speed", "peak_memory")
        return {key: _timeless(inner) for key, inner in value.items() if "second" not in key and key not in measured}
    return [_timeless(inner) for inner in value] if isinstance(value, list | tuple) else value


def compare(before: dict[str, Any], after: dict[str, Any]) -> None:
    for what in ("fingerprints", "results"):
        one, two = before[what], after[what]
        gone, new = sorted(one.keys() - two.keys()), sorted(two.keys() - one.keys())
        print(f"{what}: {len(one.keys() & two.keys())} in both; gone: {gone or 'none'}; new: {new or 'none'}")
        for key in sorted(one.keys() & two.keys()):
            if one[key] != two[key]:
                print(f"  {key}: {_difference(one[key], two[key])}")


def _difference(one: Any, two: Any) -> str:
    if isinstance(one, str):
        return f"{one[:12]} → {two[:12]}"
    files = [
        name for name in sorted({*one["files"], *two["files"]}) if one["files"].get(name) != two["files"].get(name)
    ]
    parts = [] if one["fingerprint"] == two["fingerprint"] else ["fingerprint"]
    parts += [f"files {', '.join(files)}"] if files else []
    parts += ["summary"] if one["summary"] != two["summary"] else []
    return "; ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("files", nargs="+", type=Path)
    arguments = parser.parse_args()
    if arguments.action == "compare":
        compare(*(json.loads(path.read_text()) for path in arguments.files))
        return
    repository = Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory() as place:
        recorded = {"fingerprints": fingerprints(repository), "results": results(Path(place))}
    arguments.files[0].write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
