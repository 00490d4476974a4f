"""One row of the report, read from the directories of its steps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from subgraft.initialisers.methods import TRAINED_METHODS
from subgraft.metrics.calibration import Bin
from subgraft.metrics.scores import Score
from subgraft.metrics.sentence_statistics import FloatArray
from subgraft.metrics.token_classes import Likelihood
from subgraft.objectives.dev_scores import LEFT_OUT
from subgraft.reporting.data import Bill, CurvePoint, Forgetting, Intrinsic, RowResult, TransferSummary
from subgraft.stages.evaluate import SPELLED, STATISTICS
from subgraft.stages.fitting import CURVE, kept_weights
from subgraft.stages.intrinsic import QUALITY
from subgraft.stages.likelihood import LIKELIHOOD

_BILLED = ("training_seconds", "translation_seconds")


def row_result(key: str, inputs: Mapping[str, Path], design: Design) -> RowResult:
    evaluated, finetuned = inputs[f"evaluate/{key}"], inputs[f"finetune/{key}"]
    evaluation = json.loads((evaluated / "evaluation.json").read_text())
    statistics = load_file(evaluated / STATISTICS)
    name, seed = key.rsplit("/", 1)
    pretrained = inputs.get(f"pretrained/{key}")
    kinds = ("generator", "static/encoder", "static/decoder", "distilled")
    made = [path for kind in kinds if (path := inputs.get(f"{kind}/{key}"))]
    bill = Bill(
        upstream=_billed(pretrained) if pretrained else 0.0,
        generator=sum(map(_billed, made)),
        finetuning=_billed(finetuned),
    )
    return RowResult(
        name=name,
        seed=int(seed),
        hypotheses=read_lines(evaluated / "hypotheses.txt"),
        scores={metric: Score(**score) for metric, score in evaluation["scores"].items()},
        statistics={metric: counts for metric, counts in statistics.items() if metric != SPELLED},
        curve=_curve(finetuned / CURVE),
        kept_step=kept_weights(finetuned).step,
        tokens_per_sentence=evaluation["tokens_per_sentence"],
        characters_per_token=evaluation["characters_per_token"],
        sentences_per_second=evaluation["speed"]["median"],
        parameters=evaluation["parameters"],
        bill=bill,
        inference_ece=evaluation["calibration"] and evaluation["calibration"]["error"],
        bins=tuple(Bin(**each) for each in (evaluation["calibration"] or {"bins": ()})["bins"]),
        cut_outputs=evaluation["cut_outputs"],
        transfer=_transfer(inputs.get(f"transfer/{key}")),
        family=design.family,
        variant=design.variant,
        vocabulary_size=_vocabulary_size(finetuned),
        generator_steps=design.generator_steps,
        forgetting=_forgetting(inputs.get(f"upstream_before/{key}"), inputs.get(f"upstream_after/{key}")),
        intrinsic=_intrinsic(inputs.get(f"intrinsic/{key}")),
        likelihood=_likelihood(inputs.get(f"likelihood/{key}")),
        spelled=statistics[SPELLED],
    )


@dataclass(frozen=True)
class Design:
    """Where a row stands in a sweep: what it shares with others, and how long its generator was trained.

    variant: what of the family is not the initialiser's.
    """

    family: str
    variant: str
    generator_steps: int | None


def design(row: Mapping[str, Any], experiment: Mapping[str, Any]) -> Design:
    """The design of a row; `avg` is a generator of no steps, as all generators begin as it."""
    initialiser = row["initialiser"]
    parts = [initialiser or f"{row['vocabulary']} vocabulary"]
    parts += [f"from {row['starts_from']}"] if row.get("starts_from") else []
    parts += [f"λ {row['kd_weight']:g}"] if row["kd_weight"] else []
    variant = [row["pretraining"]] if row["pretraining"] != "plain" else []
    variant += [] if row["keep_seen"] else ["no seen rows kept"]
    variant += [f"tables first {row['tables_first']:g}"] if row["tables_first"] else []
    variant += ["attached"] if row["attached"] else []
    variant += _rates(row) + _rare(row)
    steps = None
    if initialiser in TRAINED_METHODS:
        steps = row.get("generator_steps") or experiment["generator_training"]["max_steps"]
    elif initialiser == "avg" and not experiment["generator"]["literal_equation"]:
        steps = 0
    return Design(", ".join(parts + variant), ", ".join(variant), steps)


def _rare(row: Mapping[str, Any]) -> list[str]:
    """What a row does of its own about rare tokens."""
    count, rare = row.get("vocabulary_min_count"), row.get("rare_tokens")
    told = [f"pieces used {count} times"] if count else []
    if rare is not None:
        told.append(f"tokens below {rare['below']} at ×{rare['learning_rate_factor']:g}, pulled at {rare['pull']:g}")
    return told


def _rates(row: Mapping[str, Any]) -> list[str]:
    """The learning rates that a row has of its own."""
    whole, tables = row.get("learning_rate"), row.get("embedding_learning_rate")
    told = [f"learning rate {whole:g}"] if whole is not None else []
    if tables is not None:
        told.append(f"tables at {tables:g}" if tables else "tables frozen")
    return told


def _vocabulary_size(model: Path) -> int:
    """Tokens of the decoder's vocabulary, wherever the family keeps their number."""
    config = json.loads((model / "config.json").read_text())
    return int(config.get("decoder_vocab_size") or config.get("decoder", config)["vocab_size"])


def _forgetting(before: Path | None, after: Path | None) -> Forgetting | None:
    if after is None:
        return None
    found = [_bleu(directory) for directory in (after, before) if directory]
    return Forgetting(*found[0], *(found[1] if before else ()))


def _bleu(evaluated: Path) -> tuple[Score, FloatArray]:
    evaluation = json.loads((evaluated / "evaluation.json").read_text())
    return Score(**evaluation["scores"]["BLEU"]), load_file(evaluated / STATISTICS)["BLEU"]


def _intrinsic(directory: Path | None) -> dict[str, Intrinsic]:
    if directory is None:
        return {}
    found = json.loads((directory / QUALITY).read_text())
    names = [each.name for each in fields(Intrinsic)]
    return {side: Intrinsic(**{name: quality[name] for name in names}) for side, quality in found.items()}


def _likelihood(directory: Path | None) -> Likelihood | None:
    if directory is None:
        return None
    return Likelihood.from_json(json.loads((directory / LIKELIHOOD).read_text(encoding="utf-8")))


def _transfer(directory: Path | None) -> TransferSummary | None:
    if directory is None:
        return None
    summary = read_record(directory)["summary"]
    sides = list(summary["sides"].values())
    fallback: dict[str, int] = {}
    for side in sides:
        for kind, count in side["fallbacks"].items():
            fallback[kind] = fallback.get(kind, 0) + count
    seen, unseen = (sum(side[key] for side in sides) for key in ("seen", "unseen"))
    return TransferSummary(summary["method"], tuple(summary["sides"]), seen, unseen, fallback)


def _curve(path: Path) -> tuple[CurvePoint, ...]:
    return tuple(
        CurvePoint(
            point["step"],
            point["epoch"],
            point["seconds"],
            point["values"]["bits_per_character"],
            point["values"].get("bleu"),
            references_left_out=int(point["values"].get(LEFT_OUT, 0)),
        )
        for point in json.loads(path.read_text())
    )


def _billed(directory: Path) -> float:
    """Seconds a step took; of one that was interrupted, the record has the last attempt, the summary all training."""
    record = read_record(directory)
    trained = (value for key, value in flattened(record["summary"]).items() if key.endswith(_BILLED))
    return max(float(record["seconds"]), float(sum(trained)))


def read_record(directory: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((directory / "record.json").read_text(encoding="utf-8"))
    return record


def read_lines(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8").split("\n")[:-1])


def flattened(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= flattened(inner, f"{prefix}{key}.") if isinstance(inner, Mapping) else {f"{prefix}{key}": inner}
    return flat
