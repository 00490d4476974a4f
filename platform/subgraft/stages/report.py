"""Evaluations and all that led to them → Report: HTML and Markdown, with the numbers beside them as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from subgraft.config import Experiment
from subgraft.grafting.initialisers import TRAINED_METHODS
from subgraft.metrics.calibration import Bin
from subgraft.metrics.scores import Score
from subgraft.metrics.sentence_statistics import FloatArray
from subgraft.models.tokenizers import load_tokenizers
from subgraft.reporting.data import (
    Bill,
    Command,
    CorpusFacts,
    CurvePoint,
    Forgetting,
    Intrinsic,
    Provenance,
    ReportData,
    Role,
    RowResult,
    SegmentationExample,
    StageSeconds,
    SubwordGap,
    TransferSummary,
    VocabularyFacts,
)
from subgraft.reporting.report import write_report
from subgraft.reporting.words import over_segmented_words
from subgraft.settings import Settings
from subgraft.stages.context import Context, Json
from subgraft.stages.evaluate import STATISTICS
from subgraft.stages.fitting import CURVE
from subgraft.stages.intrinsic import QUALITY
from subgraft.text.corpus import Corpus
from subgraft.vocabulary.tokenizer import Tokenizer


class ReportRecipe(Settings):
    """What the report says about the experiment as a whole; everything else is read from the inputs."""

    experiment: dict[str, Any]

    @classmethod
    def of(cls, experiment: Experiment) -> ReportRecipe:
        return cls(experiment=experiment.model_dump(mode="json", exclude={"runtime", "corpora"}))


def run(recipe: ReportRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del context
    data = collect(recipe, inputs)
    write_report(data, out)
    return {"rows": len(data.rows), "artifacts": ["report.html", "report.md"]}


def collect(recipe: ReportRecipe, inputs: Mapping[str, Path]) -> ReportData:
    """Everything the report is made of, from the step's inputs."""
    experiment = recipe.experiment
    results = {key: path for key, path in inputs.items() if key.startswith("evaluate/")}
    any_result = next(iter(results.values()))
    references = _lines(any_result / "references.txt")
    upstream, downstream = load_tokenizers(inputs["model"])["decoder"], Tokenizer.load(inputs["vocabulary"])
    languages = experiment["languages"]
    names = [row["name"] for row in experiment["rows"]]
    baselines = [
        row["name"] for row in experiment["rows"] if row["vocabulary"] == "upstream" and row["pretraining"] == "plain"
    ]
    designs = {row["name"]: design(row, experiment) for row in experiment["rows"]}
    order = [f"{name}/{seed}" for name in names for seed in experiment["seeds"]]
    record = _record(inputs["model"])
    return ReportData(
        title=f"{experiment['name']}: vocabularies compared",
        languages=(languages["source"], languages["target"]),
        corpora=(
            _corpus("upstream", experiment["upstream"]["corpus"], inputs["upstream_corpus"]),
            _corpus("downstream", experiment["downstream"]["corpus"], inputs["downstream_corpus"]),
        ),
        vocabularies=(
            VocabularyFacts("upstream", upstream.mark.name.lower(), len(upstream), upstream.fingerprint),
            VocabularyFacts("downstream", downstream.mark.name.lower(), len(downstream), downstream.fingerprint),
        ),
        gap=_gap(inputs["gap"] / "gap.json", languages["target"]),
        model=_model_in_words(inputs["model"]),
        sources=_lines(any_result / "sources.txt"),
        references=references,
        over_segmented=over_segmented_words(references, upstream, downstream, languages["target"]),
        baseline=baselines[0] if baselines else None,
        rows=tuple(_row(key, inputs, designs[key.rsplit("/", 1)[0]]) for key in order),
        stages=tuple(_seconds(inputs)),
        provenance=Provenance(
            {key: str(value) for key, value in sorted(_flat(experiment).items())},
            record["provenance"]["versions"],
            record["provenance"]["git_commit"],
            record["provenance"]["device"],
        ),
        commands=_commands(experiment["name"], f"{languages['source']}-{languages['target']}"),
        speed_batch_size=experiment["evaluation"]["batch_size"],
        bootstrap_samples=experiment["evaluation"]["bootstrap_samples"],
    )


def _row(key: str, inputs: Mapping[str, Path], design: Design) -> RowResult:
    evaluated, finetuned = inputs[f"evaluate/{key}"], inputs[f"finetune/{key}"]
    evaluation = json.loads((evaluated / "evaluation.json").read_text())
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
        hypotheses=_lines(evaluated / "hypotheses.txt"),
        scores={metric: Score(**score) for metric, score in evaluation["scores"].items()},
        statistics=load_file(evaluated / STATISTICS),
        curve=_curve(finetuned / CURVE),
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
    parts += [f"λ {row['kd_weight']:g}"] if row["kd_weight"] else []
    variant = [row["pretraining"]] if row["pretraining"] != "plain" else []
    variant += [] if row["keep_seen"] else ["no seen rows kept"]
    variant += [f"tables first {row['tables_first']:g}"] if row["tables_first"] else []
    variant += ["attached"] if row["attached"] else []
    steps = None
    if initialiser in TRAINED_METHODS:
        steps = row.get("generator_steps") or experiment["generator_training"]["max_steps"]
    elif initialiser == "avg" and not experiment["generator"]["literal_equation"]:
        steps = 0
    return Design(", ".join(parts + variant), ", ".join(variant), steps)


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


def _transfer(directory: Path | None) -> TransferSummary | None:
    if directory is None:
        return None
    summary = _record(directory)["summary"]
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
        )
        for point in json.loads(path.read_text())
    )


def _corpus(role: Role, name: str, directory: Path) -> CorpusFacts:
    corpus = Corpus.open(directory)
    return CorpusFacts(role, name, corpus.generated, {str(split): corpus.size(split) for split in corpus.splits})


def _gap(path: Path, language: str) -> SubwordGap:
    gap = json.loads(path.read_text(encoding="utf-8"))
    examples = (
        SegmentationExample(word["word"], word["count"], tuple(word["upstream"]), tuple(word["downstream"]))
        for word in gap["text"]["oversegmented"]
    )
    return SubwordGap(
        gap["seen"],
        gap["unseen"],
        f"training text, {language}",
        gap["text"]["upstream_tokens_per_sentence"],
        gap["text"]["downstream_tokens_per_sentence"],
        tuple(examples),
    )


def _seconds(inputs: Mapping[str, Path]) -> list[StageSeconds]:
    """Seconds of every step among the inputs, each once however many rows share it."""
    seconds: dict[Path, StageSeconds] = {}
    for key, path in inputs.items():
        record = _record(path)
        parts = key.split("/")
        own = len(parts) == 3 and parts[0] in ("finetune", "evaluate", "upstream_after")
        row, seed = (parts[1], int(parts[2])) if own else (None, None)
        seconds.setdefault(path, StageSeconds(record["stage"], record["seconds"], row, seed))
    return list(seconds.values())


def _billed(directory: Path) -> float:
    """Seconds a step took; of one that was interrupted, the record has the last attempt, the summary all training."""
    record = _record(directory)
    trained = (value for key, value in _flat(record["summary"]).items() if key.endswith("training_seconds"))
    return max(float(record["seconds"]), float(sum(trained)))


def _model_in_words(directory: Path) -> str:
    config = json.loads((directory / "config.json").read_text())
    if config["model_type"] == "bert":
        return f"bert, {config['num_hidden_layers']} layers of width {config['hidden_size']} for each side"
    layers = f"{config.get('encoder_layers', '?')} + {config.get('decoder_layers', '?')} layers"
    return f"{config['model_type']}, {layers} of width {config.get('d_model', '?')}"


def _commands(name: str, pair: str) -> tuple[Command, ...]:
    model = f"models:/{name}-{pair}@champion"
    return (
        Command("browse every run", "subgraft tracking"),
        Command(
            "generate with the best model on dev", f'echo "…" | subgraft generate --model {model} --languages {pair}'
        ),
    )


def _record(directory: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((directory / "record.json").read_text(encoding="utf-8"))
    return record


def _lines(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8").split("\n")[:-1])


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= _flat(inner, f"{prefix}{key}.") if isinstance(inner, Mapping) else {f"{prefix}{key}": inner}
    return flat
