"""Evaluations and all that led to them → Report: HTML and Markdown, with the numbers beside them as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from subgraft.metrics.scores import Score
from subgraft.models.tokenizers import load_tokenizers
from subgraft.recipes.report import ReportRecipe
from subgraft.reporting.data import (
    Command,
    CorpusFacts,
    Provenance,
    ReportData,
    Role,
    RowResult,
    SegmentationExample,
    SpelledText,
    StageSeconds,
    SubwordGap,
    VocabularyFacts,
)
from subgraft.reporting.report import write_report
from subgraft.reporting.words import over_segmented_words
from subgraft.stages.context import Context, Json
from subgraft.stages.report_rows import design, flattened, read_lines, read_record, row_result
from subgraft.text.corpus import Corpus
from subgraft.vocabulary.spelling import Spelling
from subgraft.vocabulary.tokenizer import Tokenizer


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
    references = read_lines(any_result / "references.txt")
    upstream, downstream = load_tokenizers(inputs["model"])["decoder"], Tokenizer.load(inputs["vocabulary"])
    languages = experiment["languages"]
    names = [row["name"] for row in experiment["rows"]]
    baselines = [
        row["name"] for row in experiment["rows"] if row["vocabulary"] == "upstream" and row["pretraining"] == "plain"
    ]
    designs = {row["name"]: design(row, experiment) for row in experiment["rows"]}
    order = [f"{name}/{seed}" for name in names for seed in experiment["seeds"]]
    rows = tuple(row_result(key, inputs, designs[key.rsplit("/", 1)[0]]) for key in order)
    record = read_record(inputs["model"])
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
        sources=read_lines(any_result / "sources.txt"),
        references=references,
        over_segmented=over_segmented_words(references, upstream, downstream, languages["target"]),
        baseline=baselines[0] if baselines else None,
        rows=rows,
        stages=tuple(_seconds(inputs)),
        provenance=Provenance(
            {key: str(value) for key, value in sorted(flattened(experiment).items())},
            record["provenance"]["versions"],
            record["provenance"]["git_commit"],
            record["provenance"]["device"],
        ),
        commands=_commands(experiment["name"], f"{languages['source']}-{languages['target']}", rows),
        speed_batch_size=experiment["evaluation"]["batch_size"],
        bootstrap_samples=experiment["evaluation"]["bootstrap_samples"],
        select=experiment["finetune"].get("select", "bleu"),
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
        Spelling(**gap["text"]["upstream"]).tokens_per_sentence,
        Spelling(**gap["text"]["downstream"]).tokens_per_sentence,
        tuple(examples),
        tuple(map(_spelled, gap["spelling"])),
        tuple(gap["text"]["upstream_unspelled"]),
    )


def _spelled(found: Mapping[str, Any]) -> SpelledText:
    counts = Spelling(**{each.name: found[each.name] for each in fields(Spelling)})
    scores = {name: Score(**score) for name, score in found.get("scores", {}).items()}
    return SpelledText(found["role"], found["side"], found["split"], counts, scores)


def _seconds(inputs: Mapping[str, Path]) -> list[StageSeconds]:
    """Seconds of every step among the inputs, each once however many rows share it."""
    seconds: dict[Path, StageSeconds] = {}
    for key, path in inputs.items():
        record = read_record(path)
        parts = key.split("/")
        own = len(parts) == 3 and parts[0] in ("finetune", "evaluate", "likelihood", "upstream_after")
        row, seed = (parts[1], int(parts[2])) if own else (None, None)
        seconds.setdefault(path, StageSeconds(record["stage"], record["seconds"], row, seed))
    return list(seconds.values())


def _model_in_words(directory: Path) -> str:
    config = json.loads((directory / "config.json").read_text())
    if config["model_type"] == "bert":
        return f"bert, {config['num_hidden_layers']} layers of width {config['hidden_size']} for each side"
    layers = f"{config.get('encoder_layers', '?')} + {config.get('decoder_layers', '?')} layers"
    return f"{config['model_type']}, {layers} of width {config.get('d_model', '?')}"


def _commands(name: str, pair: str, rows: Sequence[RowResult]) -> tuple[Command, ...]:
    """There is no model to generate with where no finetuning made one."""
    model = f"models:/{name}-{pair}@champion"
    generate = f'echo "…" | subgraft generate --model {model} --languages {pair}'
    found = [Command("generate with the best model on dev", generate)] if any(row.kept_step for row in rows) else []
    return (Command("browse every run", "subgraft tracking"), *found)
