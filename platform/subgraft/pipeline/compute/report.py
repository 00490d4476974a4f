"""Evaluations and their inputs → Report: HTML and Markdown, with the numbers as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from subgraft.data.text.cleaning import dropped_in_words
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.bits_per_character import LEFT_OUT
from subgraft.evaluation.metrics.parameter_drift import FEED_FORWARD
from subgraft.evaluation.metrics.scores import Score
from subgraft.evaluation.reporting import records
from subgraft.evaluation.reporting.answer import Answer
from subgraft.evaluation.reporting.continuation import (
    Continued,
    build_continuation_document,
    continuation_answer,
    continuation_table,
)
from subgraft.evaluation.reporting.document import Form, write_document
from subgraft.evaluation.reporting.examples import over_segmented_words
from subgraft.evaluation.reporting.model_use import use_of
from subgraft.evaluation.reporting.records import ReportData, SystemResult
from subgraft.evaluation.reporting.report import build_document, translation_answer
from subgraft.evaluation.reporting.results import terminal_table
from subgraft.evaluation.reporting.understanding import (
    Labelled,
    build_labelled_document,
    labelled_answer,
    labelled_table,
)
from subgraft.modeling.conditioning.settings import SourceName
from subgraft.modeling.families import family_of, vocabulary_sizes
from subgraft.modeling.hub import read_config
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.pipeline.artifacts import (
    CONFIDENCE,
    SPELLED,
    STATISTICS,
    read_evaluation,
    read_line_bits,
    read_lines,
    read_record,
)
from subgraft.pipeline.measurements import registry
from subgraft.pipeline.measurements.directions import with_direction_means
from subgraft.pipeline.measurements.documents import DocumentScores
from subgraft.pipeline.measurements.forgetting import compare_upstream_bits
from subgraft.pipeline.measurements.measurement import Sources
from subgraft.pipeline.stages.report import ReportedSystem, ReportStage
from subgraft.subwords.vocabulary.lost_text import LostText
from subgraft.subwords.vocabulary.spelling import Spelling
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.context import Context
from subgraft.training.objectives.registry import TaskObjectiveSettings
from subgraft.training.progress import CURVE, selected_weights
from subgraft.training.stage import Inputs, Summary

_UNITS: Mapping[Form, str] = {"translation": "sentences", "continuation": "lines", "labels": "examples"}
_BILLED_KEYS = ("training_seconds", "translation_seconds")
# A description of the prompts by the kind of source.
_PROMPTS: Mapping[SourceName | None, str] = {
    None: "the first halves of test lines",
    "class": "the class of each text, without any of its words",
    "text": "the source texts, without any target text",
    "features": "features, without any text",
}


def run(stage: ReportStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    form, data = form_of(stage.objective), replace(collect(stage, inputs), command=context.command)
    measured, answer = registry.measured(data, form), answer_of(data, form)
    if form == "labels":
        document, table = build_labelled_document(data, answer, measured), labelled_table(data)
    elif form == "continuation":
        document, table = build_continuation_document(data, answer, measured), continuation_table(data)
    else:
        document, table = build_document(data, answer, measured), terminal_table(data, measured.columns)
    write_document(document, out)
    replace(table, answer=str(answer)).write(out)
    return {"systems": len(data.systems), "artifacts": ["report.html", "report.md"]}


def answer_of(data: ReportData, form: Form) -> Answer:
    """Which system to take: what the report begins with, and what a run and a fit end with."""
    if form == "labels":
        return labelled_answer(data)
    if form == "continuation":
        return continuation_answer(data, compare_upstream_bits(data))
    return with_direction_means(translation_answer(data), data)


def form_of(objective: TaskObjectiveSettings) -> Form:
    """The form of the report on models that are finetuned on an objective."""
    if objective.understands:
        return "labels"
    return "continuation" if objective.continues or objective.source else "translation"


def collect(stage: ReportStage, inputs: Inputs) -> ReportData:
    """The data of the report, from the step's inputs. Prompts are the sources of models that continue text."""
    any_result, objective = inputs[stage.systems[0].inputs.evaluate], stage.objective
    references = read_lines(any_result / "references.txt")
    upstream, downstream = load_tokenizers(inputs["model"])["decoder"], Tokenizer.load(inputs["vocabulary"])
    languages, form = stage.languages, form_of(objective)
    systems = tuple(_result(system, inputs, form) for system in stage.systems)
    config, provenance = read_config(inputs["model"]), read_record(inputs["model"])["provenance"]
    finetuning = stage.settings["finetune"]
    conversations = "the turns of test conversations before the last answer"
    # Each step once, however many systems share it.
    by_path = {path: read_record(path) for path in inputs.values()}
    return ReportData(
        title=f"{stage.name}: vocabularies compared",
        languages=(languages.source, languages.target),
        corpora=tuple(_corpora(stage, inputs)),
        vocabularies=(
            records.VocabularyFacts("upstream", upstream.mark.name.lower(), len(upstream), upstream.fingerprint),
            records.VocabularyFacts(
                "downstream", downstream.mark.name.lower(), len(downstream), downstream.fingerprint
            ),
        ),
        gap=_gap(inputs["gap"] / "gap.json", languages.target),
        model=family_of(config).in_words(config),
        sources=read_lines(any_result / ("prompts.txt" if form == "continuation" else "sources.txt")),
        references=references,
        over_segmented=over_segmented_words(references, upstream, downstream, languages.target),
        baseline=stage.baseline,
        systems=systems,
        stages=tuple(records.StageSeconds(record["stage"], record["seconds"]) for record in by_path.values()),
        provenance=records.ProvenanceFacts(
            {key: str(value) for key, value in sorted(_flatten(stage.settings).items())},
            provenance["versions"],
            provenance["git_commit"],
            provenance["device"],
        ),
        commands=_commands(
            stage.name, f"{languages.source}-{languages.target}", systems, predicts=objective.understands
        ),
        speed_batch_size=stage.speed_batch_size,
        bootstrap_samples=stage.bootstrap_samples,
        select=stage.select,
        text=_text(inputs["text"]) if "text" in inputs else (),
        prompts=conversations if objective.kind == "chat" else _PROMPTS[objective.source],
        unit="documents" if any(system.measured(DocumentScores) for system in systems) else _UNITS[form],
        characters_per_step=finetuning["batch_size"] if finetuning["batch_unit"] == "characters" else None,
    )


def _corpora(stage: ReportStage, inputs: Inputs) -> Iterator[records.CorpusFacts]:
    if stage.upstream is not None:
        yield _corpus("upstream", stage.upstream, inputs["upstream_corpus"])
    yield _corpus("downstream", stage.downstream, inputs["downstream_corpus"])


def _corpus(role: records.Role, name: str, directory: Path) -> records.CorpusFacts:
    corpus = Corpus.open(directory)
    sizes = {str(split): corpus.size(split) for split in corpus.splits}
    counts = corpus.counts.get("train", {})
    return records.CorpusFacts(
        role, name, corpus.generated, sizes, dropped_in_words(counts), counts.get("near_copies", 0)
    )


def _text(directory: Path) -> tuple[records.TextFacts, ...]:
    summary, facts = read_record(directory)["summary"], list[records.TextFacts]()
    for field in Corpus.open(directory).fields:
        counts, language = summary[field.name], str(field.language)
        dropped, near = dropped_in_words(counts), counts.get("near_copies", 0)
        read, retained, characters = counts["read"], counts["kept"], counts["characters"]
        facts.append(records.TextFacts(field.name, language, read, retained, characters, dropped, near))
    return tuple(facts)


def _gap(path: Path, language: str) -> records.SubwordGap:
    gap = json.loads(path.read_text(encoding="utf-8"))
    examples = (
        records.SegmentationExample(word["word"], word["count"], tuple(word["upstream"]), tuple(word["downstream"]))
        for word in gap["text"]["oversegmented"]
    )
    lost = {
        side: LostText(
            record["lines"],
            record["lost"],
            tuple(record["characters"]),
            tuple((before, after) for before, after in record["examples"]),
        )
        for side, record in gap["lost"].items()
    }
    return records.SubwordGap(
        gap["seen"],
        gap["unseen"],
        f"training text, {language}",
        Spelling(**gap["text"]["upstream"]).tokens_per_sentence,
        Spelling(**gap["text"]["downstream"]).tokens_per_sentence,
        tuple(examples),
        tuple(map(_spelled_text, gap["spelling"])),
        tuple(gap["text"]["upstream_unknown_characters"]),
        lost,
    )


def _spelled_text(record: Mapping[str, Any]) -> records.SpelledText:
    counts = Spelling(**{field.name: record[field.name] for field in fields(Spelling)})
    scores = {name: Score(**score) for name, score in record.get("scores", {}).items()}
    return records.SpelledText(record["role"], record["side"], record["split"], counts, scores)


def _commands(name: str, pair: str, systems: Sequence[SystemResult], *, predicts: bool) -> tuple[records.Command, ...]:
    """Commands for the reader; the command that uses the best model is left out if no finetuning improved it."""
    model = f"models:/{name}-{pair}@champion"
    use = use_of(model, pair, predicts=predicts)
    commands = [records.Command("browse every run", "subgraft tracking")]
    if not all(system.untrained for system in systems):
        commands.append(records.Command(f"{use.verb} with the best model on dev", use.command))
    return tuple(commands)


# The result of a system, from the directories of its steps.


def _result(system: ReportedSystem, inputs: Inputs, form: Form) -> SystemResult:
    """`inputs` are the report's, by the keys that the system names."""
    keys, design, finetuned = system.inputs, system.design, inputs[system.inputs.finetune]
    evaluated, summary = inputs[keys.evaluate], read_record(finetuned)["summary"]
    selected = selected_weights(finetuned, design.select)
    evaluation = read_evaluation(evaluated)
    statistics, previous_training = load_file(evaluated / STATISTICS), keys.multitask or keys.by_sentence
    scores = {name: Score(**score) for name, score in evaluation.get("scores", {}).items()}
    outputs: list[object] = []
    if form == "continuation":
        texts = read_lines(evaluated / "continuations.txt")
        outputs.append(Continued(read_line_bits(evaluated), texts, evaluation.get("tokens_per_prompt")))
    elif form == "labels":
        confusion = evaluation["confusion"] or {"labels": (), "counts": None}
        counts = None if confusion["counts"] is None else np.array(confusion["counts"])
        outputs.append(Labelled(tuple(confusion["labels"]), counts, statistics.get(CONFIDENCE)))
    return SystemResult(
        name=system.name,
        seed=system.seed,
        hypotheses=() if form == "continuation" else read_lines(evaluated / "hypotheses.txt"),
        scores=scores,
        statistics={name: statistics[name] for name in (scores if form == "labels" else statistics) if name in scores},
        curve=_curve(finetuned / CURVE),
        selected_step=selected.step,
        dev=records.SelectedScore(selected.score, selected.value, selected.signed_value != selected.value),
        on_several_tasks=previous_training is not None
        and read_record(inputs[previous_training])["summary"]["best_step"] > 0,
        tokens_per_sentence=evaluation["tokens_per_sentence"],
        characters_per_token=evaluation["characters_per_token"],
        sentences_per_second=evaluation["speed"]["median"],
        load=evaluation["speed"].get("load"),
        cores=evaluation["speed"].get("cores"),
        parameters=evaluation["parameters"],
        cost=_cost(system, inputs),
        cut_outputs=evaluation["cut_outputs"],
        trained_parameters=summary.get("trained_parameters"),
        peak_memory=summary.get("peak_memory"),
        transfer=_transfer(inputs[keys.transfer]) if keys.transfer else None,
        family=design.family,
        variant=design.variant,
        vocabulary_size=vocabulary_sizes(read_config(finetuned))["decoder"],
        generator_steps=design.generator_steps,
        pretraining_step=design.pretraining_step,
        spelled=statistics[SPELLED] if form == "translation" else None,
        trained_on=system.trained_on,
        output_language=evaluation.get("output_language", {}),
        measurements=(*outputs, *registry.records(_sources(system, inputs))),
    )


def _sources(system: ReportedSystem, inputs: Inputs) -> Sources:
    """The directories from which measurements read their records."""
    keys = system.inputs
    steps, directions, seen = (
        {name: inputs[key] for name, key in each.items()} for each in (keys.measured, keys.directions, keys.seen)
    )
    return Sources(inputs[keys.evaluate], steps, directions, seen, system.zero_shot)


def _cost(system: ReportedSystem, inputs: Inputs) -> records.Cost:
    keys = system.inputs
    return records.Cost(
        upstream=_billed_seconds(inputs[keys.pretrained]) if keys.pretrained else 0.0,
        generator=sum(_billed_seconds(inputs[key]) for key in (*keys.new_rows, *keys.synthetic_data)),
        finetuning=sum(
            _billed_seconds(inputs[key]) for key in (keys.multitask, keys.by_sentence, keys.finetune) if key
        ),
    )


def _transfer(directory: Path) -> records.TransferSummary:
    summary = read_record(directory)["summary"]
    sides = list(summary["sides"].values())
    fallback = Counter[str]()
    for side in sides:
        fallback.update(side["fallbacks"])
    seen, unseen = (sum(side[key] for side in sides) for key in ("seen", "unseen"))
    return records.TransferSummary(summary["method"], tuple(summary["sides"]), seen, unseen, dict(fallback))


def _curve(path: Path) -> tuple[records.CurvePoint, ...]:
    return tuple(
        records.CurvePoint(
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
    trained = (value for key, value in _flatten(record["summary"]).items() if key.endswith(_BILLED_KEYS))
    return max(float(record["seconds"]), float(sum(trained)))


def _flatten(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= _flatten(inner, f"{prefix}{key}.") if isinstance(inner, Mapping) else {f"{prefix}{key}": inner}
    return flat
