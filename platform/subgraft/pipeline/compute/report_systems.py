"""One system of the report, read from the directories of its steps."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from subgraft.evaluation.metrics.bits_per_character import LEFT_OUT
from subgraft.evaluation.metrics.calibration import Bin
from subgraft.evaluation.metrics.parameter_drift import FEED_FORWARD
from subgraft.evaluation.metrics.scores import Score, corpus_scores
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.evaluation.metrics.token_classes import Likelihood
from subgraft.evaluation.metrics.untranslated import copying
from subgraft.evaluation.reporting.records import (
    Bill,
    CurvePoint,
    DirectionResult,
    DocumentScores,
    Forgetting,
    Intrinsic,
    SystemResult,
    TransferSummary,
)
from subgraft.modeling.families import vocabulary_sizes
from subgraft.modeling.hub import read_config
from subgraft.pipeline.artifacts import BITS, CHARACTERS, CONFIDENCE, LIKELIHOOD, QUALITY, SEEN, SPELLED, STATISTICS
from subgraft.pipeline.stages.evaluation import ReportedSystem
from subgraft.training.progress import CURVE, selected_weights
from subgraft.training.stage import Inputs

_BILLED_KEYS = ("training_seconds", "translation_seconds")


def system_result(system: ReportedSystem, inputs: Inputs) -> SystemResult:
    """Read the result of a system; `inputs` are the report's, by the keys that the system names."""
    keys, evaluated = system.inputs, inputs[system.inputs.evaluate]
    evaluation, statistics = _evaluation(evaluated), load_file(evaluated / STATISTICS)
    return SystemResult(
        **_common_fields(system, inputs, evaluation),
        hypotheses=read_lines(evaluated / "hypotheses.txt"),
        scores={metric: Score(**score) for metric, score in evaluation["scores"].items()},
        statistics={metric: counts for metric, counts in statistics.items() if metric != SPELLED},
        inference_ece=evaluation["calibration"] and evaluation["calibration"]["error"],
        bins=tuple(Bin(**bin_record) for bin_record in (evaluation["calibration"] or {"bins": ()})["bins"]),
        forgetting=_forgetting(
            _optional_input(keys.upstream_before, inputs), _optional_input(keys.upstream_after, inputs)
        ),
        likelihood=_likelihood(_optional_input(keys.likelihood, inputs)),
        spelled=statistics[SPELLED],
        directions={name: _direction(name, system, inputs) for name in keys.directions},
        trained_on=system.trained_on,
        documents=_documents(evaluation.get("documents")),
        output_language=evaluation.get("output_language", {}),
    )


def _direction(name: str, system: ReportedSystem, inputs: Inputs) -> DirectionResult:
    evaluated, keys = inputs[system.inputs.directions[name]], system.inputs
    evaluation, statistics = _evaluation(evaluated), load_file(evaluated / STATISTICS)
    language = read_record(evaluated)["recipe"]["languages"]["target"]
    sources, references, outputs = (
        read_lines(evaluated / f"{kind}.txt") for kind in ("sources", "references", "hypotheses")
    )
    return DirectionResult(
        {metric: Score(**score) for metric, score in evaluation["scores"].items()},
        {metric: counts for metric, counts in statistics.items() if metric != SPELLED},
        {
            str(metric): score
            for metric, score in corpus_scores(sources, references, language, ["BLEU", "chrF"]).items()
        },
        name in system.zero_shot,
        copying=copying(sources, outputs, language),
        output_language=evaluation.get("output_language", {}),
        **json.loads((inputs[keys.seen[name]] / SEEN).read_text(encoding="utf-8")),
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
        line_bits=_line_bits(evaluated),
        upstream_bits=_line_bits(_optional_input(system.inputs.upstream_after, inputs)),
        upstream_bits_before=_line_bits(_optional_input(system.inputs.upstream_before, inputs)),
        continuations=read_lines(evaluated / "continuations.txt"),
    )


def _line_bits(evaluated: Path | None) -> FloatArray | None:
    """Each line's bits and their characters [n, 2]."""
    if evaluated is None:
        return None
    statistics = load_file(evaluated / STATISTICS)
    return np.stack([statistics[BITS], statistics[CHARACTERS]], axis=1)


def labelled_result(system: ReportedSystem, inputs: Inputs) -> SystemResult:
    """Read the result of a model that predicts labels."""
    evaluated = inputs[system.inputs.evaluate]
    evaluation, statistics = _evaluation(evaluated), load_file(evaluated / STATISTICS)
    scores = {name: Score(**score) for name, score in evaluation["scores"].items()}
    calibration, confusion = evaluation["calibration"], evaluation["confusion"]
    return SystemResult(
        **_common_fields(system, inputs, evaluation),
        hypotheses=read_lines(evaluated / "hypotheses.txt"),
        scores=scores,
        statistics={name: statistics[name] for name in scores},
        inference_ece=calibration and calibration["error"],
        bins=tuple(Bin(**bin_record) for bin_record in (calibration or {"bins": ()})["bins"]),
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
        "intrinsic": _intrinsic(_optional_input(keys.intrinsic, inputs)),
    }


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


def _documents(scored: Mapping[str, Any] | None) -> DocumentScores | None:
    if scored is None:
        return None
    by_sentence = Score(**scored["s-BLEU"]) if scored["s-BLEU"] else None
    return DocumentScores(scored["count"], scored["differing"], Score(**scored["d-BLEU"]), by_sentence)


def _forgetting(before: Path | None, after: Path | None) -> Forgetting | None:
    if after is None:
        return None
    scores = [_bleu(directory) for directory in (after, before) if directory]
    return Forgetting(*scores[0], *(scores[1] if before else ()))


def _bleu(evaluated: Path) -> tuple[Score, FloatArray]:
    evaluation = json.loads((evaluated / "evaluation.json").read_text())
    return Score(**evaluation["scores"]["BLEU"]), load_file(evaluated / STATISTICS)["BLEU"]


def _intrinsic(directory: Path | None) -> dict[str, Intrinsic]:
    if directory is None:
        return {}
    qualities = json.loads((directory / QUALITY).read_text())
    names = [field.name for field in fields(Intrinsic)]
    return {side: Intrinsic(**{name: quality[name] for name in names}) for side, quality in qualities.items()}


def _likelihood(directory: Path | None) -> Likelihood | None:
    if directory is None:
        return None
    return Likelihood.from_json(json.loads((directory / LIKELIHOOD).read_text(encoding="utf-8")))


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


def read_record(directory: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((directory / "record.json").read_text(encoding="utf-8"))
    return record


def read_lines(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8").split("\n")[:-1])


def flatten(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= flatten(inner, f"{prefix}{key}.") if isinstance(inner, Mapping) else {f"{prefix}{key}": inner}
    return flat
