"""Evaluations and their inputs → Report: HTML and Markdown, with the numbers as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from subgraft.data.text.cleaning import dropped_in_words
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.scores import Score
from subgraft.evaluation.reporting import records
from subgraft.evaluation.reporting.continuation import continuation_table, write_continuation_report
from subgraft.evaluation.reporting.document import Form
from subgraft.evaluation.reporting.examples import over_segmented_words
from subgraft.evaluation.reporting.model_use import use_of
from subgraft.evaluation.reporting.records import ReportData, SystemResult
from subgraft.evaluation.reporting.report import write_report
from subgraft.evaluation.reporting.results import terminal_table
from subgraft.evaluation.reporting.understanding import labelled_table, write_labelled_report
from subgraft.modeling.conditioning.settings import SourceName
from subgraft.modeling.families import family_of
from subgraft.modeling.hub import read_config
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.pipeline.artifacts import read_lines, read_record
from subgraft.pipeline.compute.report_systems import (
    continued_result,
    flatten,
    labelled_result,
    system_result,
)
from subgraft.pipeline.measurements import registry
from subgraft.pipeline.measurements.documents import DocumentScores
from subgraft.pipeline.stages.report import ReportedSystem, ReportStage
from subgraft.subwords.vocabulary.lost_text import LostText
from subgraft.subwords.vocabulary.spelling import Spelling
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.context import Context
from subgraft.training.stage import Inputs, Summary


def run(stage: ReportStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    del context
    form, collect_data = _FORMS[stage.objective.kind]
    data = collect_data(stage, inputs)
    measured = registry.measured(data, form)
    if form == "labels":
        write_labelled_report(data, out, measured)
        table = labelled_table(data)
    elif form == "continuation":
        write_continuation_report(data, out, measured)
        table = continuation_table(data)
    else:
        write_report(data, out, measured)
        table = terminal_table(data, measured.columns)
    table.write(out)
    return {"systems": len(data.systems), "artifacts": ["report.html", "report.md"]}


def collect_any(stage: ReportStage, inputs: Inputs) -> ReportData:
    """The data of the report on any task."""
    return _FORMS[stage.objective.kind][1](stage, inputs)


def collect(stage: ReportStage, inputs: Inputs) -> ReportData:
    """The data of the report, from the step's inputs."""
    return _collect(stage, inputs, system_result, "sources.txt")


def collect_continued(stage: ReportStage, inputs: Inputs) -> ReportData:
    """Collect the data for models that continue text; the sources are prompts, fewer than the references."""
    return _collect(stage, inputs, continued_result, "prompts.txt")


def _collect_answered(stage: ReportStage, inputs: Inputs) -> ReportData:
    """Collect the data for models that answer in conversations."""
    return replace(collect_continued(stage, inputs), prompts="the turns of test conversations before the last answer")


def _collect_written(stage: ReportStage, inputs: Inputs) -> ReportData:
    """Collect the data for models that write for a source; the prompts are the sources."""
    assert stage.objective.source is not None
    return replace(collect_continued(stage, inputs), prompts=_PROMPTS[stage.objective.source])


def _collect(
    stage: ReportStage,
    inputs: Inputs,
    result: Callable[[ReportedSystem, Inputs], SystemResult],
    sources: str,
) -> ReportData:
    any_result = inputs[stage.systems[0].inputs.evaluate]
    references = read_lines(any_result / "references.txt")
    upstream, downstream = load_tokenizers(inputs["model"])["decoder"], Tokenizer.load(inputs["vocabulary"])
    languages = stage.languages
    systems = tuple(result(system, inputs) for system in stage.systems)
    config, provenance = read_config(inputs["model"]), read_record(inputs["model"])["provenance"]
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
        sources=read_lines(any_result / sources),
        references=references,
        over_segmented=over_segmented_words(references, upstream, downstream, languages.target),
        baseline=stage.baseline,
        systems=systems,
        stages=tuple(_stage_seconds(inputs)),
        provenance=records.Provenance(
            {key: str(value) for key, value in sorted(flatten(stage.settings).items())},
            provenance["versions"],
            provenance["git_commit"],
            provenance["device"],
        ),
        commands=_commands(
            stage.name,
            f"{languages.source}-{languages.target}",
            systems,
            predicts=stage.objective.understands,
        ),
        speed_batch_size=stage.speed_batch_size,
        bootstrap_samples=stage.bootstrap_samples,
        select=stage.select,
        text=_text(inputs["text"]) if "text" in inputs else (),
        unit="documents" if any(system.measured(DocumentScores) for system in systems) else "sentences",
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
    return records.SubwordGap(
        gap["seen"],
        gap["unseen"],
        f"training text, {language}",
        Spelling(**gap["text"]["upstream"]).tokens_per_sentence,
        Spelling(**gap["text"]["downstream"]).tokens_per_sentence,
        tuple(examples),
        tuple(map(_spelled_text, gap["spelling"])),
        tuple(gap["text"]["upstream_unknown_characters"]),
        {side: _lost_text(lost) for side, lost in gap["lost"].items()},
    )


def _lost_text(record: Mapping[str, Any]) -> LostText:
    examples = tuple((before, after) for before, after in record["examples"])
    return LostText(record["lines"], record["lost"], tuple(record["characters"]), examples)


def _spelled_text(record: Mapping[str, Any]) -> records.SpelledText:
    counts = Spelling(**{field.name: record[field.name] for field in fields(Spelling)})
    scores = {name: Score(**score) for name, score in record.get("scores", {}).items()}
    return records.SpelledText(record["role"], record["side"], record["split"], counts, scores)


def _stage_seconds(inputs: Inputs) -> list[records.StageSeconds]:
    """Seconds of every step among the inputs, each once however many systems share it."""
    by_path = {path: read_record(path) for path in inputs.values()}
    return [records.StageSeconds(record["stage"], record["seconds"]) for record in by_path.values()]


def _commands(name: str, pair: str, systems: Sequence[SystemResult], *, predicts: bool) -> tuple[records.Command, ...]:
    """Commands for the reader; the command that uses the best model is left out if no finetuning improved it."""
    model = f"models:/{name}-{pair}@champion"
    use = use_of(model, pair, predicts=predicts)
    commands = [records.Command("browse every run", "subgraft tracking")]
    if not all(system.untrained for system in systems):
        commands.append(records.Command(f"{use.verb} with the best model on dev", use.command))
    return tuple(commands)


# A description of the prompts by the kind of source.
_PROMPTS: Mapping[SourceName, str] = {
    "class": "the class of each text, without any of its words",
    "text": "the source texts, without any target text",
    "features": "features, without any text",
}


def collect_labelled(stage: ReportStage, inputs: Inputs) -> ReportData:
    """Collect the data for models that predict labels."""
    return _collect(stage, inputs, labelled_result, "sources.txt")


# The form of the report, and what collects its data, by the kind of objective.
_FORMS: Mapping[str, tuple[Form, Callable[[ReportStage, Inputs], ReportData]]] = {
    "translation": ("translation", collect),
    "chat": ("continuation", _collect_answered),
    "causal": ("continuation", collect_continued),
    "labelled": ("labels", collect_labelled),
    "labelled-pairs": ("labels", collect_labelled),
    "conditioned": ("continuation", _collect_written),
    "conditioned-on-text": ("continuation", _collect_written),
    "conditioned-on-features": ("continuation", _collect_written),
}
