"""One system of the report, read from the directories of its steps."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from subgraft.evaluation.metrics.bits_per_character import LEFT_OUT
from subgraft.evaluation.metrics.parameter_drift import FEED_FORWARD
from subgraft.evaluation.metrics.scores import Score
from subgraft.evaluation.reporting.records import (
    Bill,
    CurvePoint,
    SystemResult,
    TransferSummary,
)
from subgraft.modeling.families import vocabulary_sizes
from subgraft.modeling.hub import read_config
from subgraft.pipeline.artifacts import CONFIDENCE, SPELLED, STATISTICS, line_bits, read_lines, read_record
from subgraft.pipeline.measurements import registry
from subgraft.pipeline.measurements.measurement import Sources
from subgraft.pipeline.stages.report import ReportedSystem
from subgraft.training.progress import CURVE, selected_weights
from subgraft.training.stage import Inputs

_BILLED_KEYS = ("training_seconds", "translation_seconds")


def system_result(system: ReportedSystem, inputs: Inputs) -> SystemResult:
    """Read the result of a system; `inputs` are the report's, by the keys that the system names."""
    evaluated = inputs[system.inputs.evaluate]
    evaluation, statistics = _evaluation(evaluated), load_file(evaluated / STATISTICS)
    return SystemResult(
        **_common_fields(system, inputs, evaluation),
        hypotheses=read_lines(evaluated / "hypotheses.txt"),
        scores={metric: Score(**score) for metric, score in evaluation["scores"].items()},
        statistics={metric: counts for metric, counts in statistics.items() if metric != SPELLED},
        spelled=statistics[SPELLED],
        trained_on=system.trained_on,
        output_language=evaluation.get("output_language", {}),
    )


def continued_result(system: ReportedSystem, inputs: Inputs) -> SystemResult:
    """Read the result of a model that continues text, or writes for a source."""
    evaluated = inputs[system.inputs.evaluate]
    evaluation, statistics = _evaluation(evaluated), load_file(evaluated / STATISTICS)
    scores = {name: Score(**score) for name, score in evaluation.get("scores", {}).items()}
    return SystemResult(
        **_common_fields(system, inputs, evaluation),
        hypotheses=(),
        scores=scores,
        statistics={name: counts for name, counts in statistics.items() if name in scores},
        line_bits=line_bits(evaluated),
        continuations=read_lines(evaluated / "continuations.txt"),
    )


def labelled_result(system: ReportedSystem, inputs: Inputs) -> SystemResult:
    """Read the result of a model that predicts labels."""
    evaluated = inputs[system.inputs.evaluate]
    evaluation, statistics = _evaluation(evaluated), load_file(evaluated / STATISTICS)
    scores = {name: Score(**score) for name, score in evaluation["scores"].items()}
    confusion = evaluation["confusion"]
    return SystemResult(
        **_common_fields(system, inputs, evaluation),
        hypotheses=read_lines(evaluated / "hypotheses.txt"),
        scores=scores,
        statistics={name: statistics[name] for name in scores},
        labels=tuple(confusion["labels"]) if confusion else (),
        confusion=np.array(confusion["counts"]) if confusion else None,
        confidence=statistics.get(CONFIDENCE),
    )


def _evaluation(evaluated: Path) -> dict[str, Any]:
    evaluation: dict[str, Any] = json.loads((evaluated / "evaluation.json").read_text())
    return evaluation


def _common_fields(system: ReportedSystem, inputs: Inputs, evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a `SystemResult` that do not depend on the task."""
    keys, design, finetuned = system.inputs, system.design, inputs[system.inputs.finetune]
    summary, previous_training = read_record(finetuned)["summary"], keys.multitask or keys.by_sentence
    return {
        "name": system.name,
        "seed": system.seed,
        "curve": _curve(finetuned / CURVE),
        "selected_step": selected_weights(finetuned, design.select).step,
        "on_several_tasks": previous_training is not None
        and read_record(inputs[previous_training])["summary"]["best_step"] > 0,
        "tokens_per_sentence": evaluation["tokens_per_sentence"],
        "characters_per_token": evaluation["characters_per_token"],
        "tokens_per_prompt": evaluation.get("tokens_per_prompt"),
        "sentences_per_second": evaluation["speed"]["median"],
        "load": evaluation["speed"].get("load"),
        "cores": evaluation["speed"].get("cores"),
        "parameters": evaluation["parameters"],
        "bill": _bill(system, inputs),
        "cut_outputs": evaluation["cut_outputs"],
        **{name: summary.get(name) for name in ("trained_parameters", "peak_memory")},
        "transfer": _transfer(_optional_input(keys.transfer, inputs)),
        "family": design.family,
        "variant": design.variant,
        "vocabulary_size": vocabulary_sizes(read_config(finetuned))["decoder"],
        "generator_steps": design.generator_steps,
        "pretraining_step": design.pretraining_step,
        "measurements": registry.records(_sources(system, inputs)),
    }


def _sources(system: ReportedSystem, inputs: Inputs) -> Sources:
    """The directories from which measurements read their records."""
    keys = system.inputs
    steps, directions, seen = (
        {name: inputs[key] for name, key in each.items()} for each in (keys.measured, keys.directions, keys.seen)
    )
    return Sources(inputs[keys.evaluate], steps, directions, seen, system.zero_shot)


def _bill(system: ReportedSystem, inputs: Inputs) -> Bill:
    keys = system.inputs
    return Bill(
        upstream=_billed_seconds(inputs[keys.pretrained]) if keys.pretrained else 0.0,
        generator=sum(_billed_seconds(inputs[key]) for key in (*keys.new_rows, *keys.synthetic_data)),
        finetuning=sum(
            _billed_seconds(inputs[key]) for key in (keys.multitask, keys.by_sentence, keys.finetune) if key
        ),
    )


def _optional_input(key: str | None, inputs: Inputs) -> Path | None:
    return None if key is None else inputs[key]


def _transfer(directory: Path | None) -> TransferSummary | None:
    if directory is None:
        return None
    summary = read_record(directory)["summary"]
    sides = list(summary["sides"].values())
    fallback = Counter[str]()
    for side in sides:
        fallback.update(side["fallbacks"])
    seen, unseen = (sum(side[key] for side in sides) for key in ("seen", "unseen"))
    return TransferSummary(summary["method"], tuple(summary["sides"]), seen, unseen, dict(fallback))


def _curve(path: Path) -> tuple[CurvePoint, ...]:
    return tuple(
        CurvePoint(
            point["step"],
            point["epoch"],
            point["seconds"],
            point["values"].get("bits_per_character"),
            point["values"].get("bleu"),
            point["values"].get("chrf"),
            references_left_out=int(point["values"].get(LEFT_OUT, 0)),
            drift=point["values"].get(FEED_FORWARD),
            score=point["values"].get("score"),
            nats=point["values"].get("nats"),
        )
        for point in json.loads(path.read_text())
    )


def _billed_seconds(directory: Path) -> float:
    """Seconds of a step. If it was interrupted, its record covers only the last attempt, its summary all training."""
    record = read_record(directory)
    trained = (value for key, value in flatten(record["summary"]).items() if key.endswith(_BILLED_KEYS))
    return max(float(record["seconds"]), float(sum(trained)))


def flatten(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= flatten(inner, f"{prefix}{key}.") if isinstance(inner, Mapping) else {f"{prefix}{key}": inner}
    return flat
