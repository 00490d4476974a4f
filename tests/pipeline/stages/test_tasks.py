"""Tasks within one language, from their files to the report, on text invented here, in this process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from small_experiments import perform_step
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.data.text.corpus import Corpus
from subgraft.experiments.pipeline import Pipeline
from subgraft.modeling.bundle import Bundle
from subgraft.orchestration.store.step import Step, in_order
from subgraft.orchestration.store.store import Store
from task_files import SPLITS, write_everyday, write_task

CONFIG = """\
name: tiny
task: TASK
languages: {source: en, target: en}
corpora:
  everyday: {files: {train: [everyday.txt]}}
  downstream: SOURCE
upstream: {corpus: everyday, objectives: [{kind: denoising}], vocabulary: {size: 60, byte_fallback: false}}
downstream: {corpus: downstream, vocabulary: {size: 60, byte_fallback: false}}
model: {family: mbart, d_model: 16, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 16}
pretrain: {epochs: 1, max_steps: 3, batch_size: 500, precision: fp32}
generator_training: {max_steps: 2, batch_size: 500, precision: fp32}
finetune: {epochs: 1, max_steps: 4, batch_size: 2000, precision: fp32, dev_sentences: 2}
systems:
  - {name: without, vocabulary: upstream}
  - {name: mean, initialiser: mean}
  - {name: ours, initialiser: patt, kd_weight: 0.5}
evaluation: {beam: 1, speed_sentences: 2, speed_repeats: 1, bootstrap_samples: 20}
"""
QUESTIONS = ("question-generation", "{squad: .}")
FIELDS = ("text-to-text", "{columns: {folder: ., source: text, target: title}}")


def configured(place: Path, task: str, source: str, *overrides: str) -> Pipeline:
    place.mkdir(exist_ok=True)
    (place / "config.yaml").write_text(CONFIG.replace("TASK", task).replace("SOURCE", source))
    write_everyday(place)
    for split, count in SPLITS.items():
        write_task(place, split, count)
    return Pipeline(load(place / "config.yaml", Experiment, overrides), place)


def perform_all(pipeline: Pipeline, steps: list[Step], home: Path) -> Store:
    for step in in_order(steps):
        perform_step(step, home)
    return Store(home)


@pytest.mark.parametrize(
    ("task", "source"),
    [pytest.param(*QUESTIONS, id="questions", marks=pytest.mark.slow), pytest.param(*FIELDS, id="fields")],
)
def test_a_task_within_one_language_goes_all_the_way(tmp_path: Path, task: str, source: str) -> None:
    pipeline = configured(tmp_path, task, source)
    store = perform_all(pipeline, [pipeline.report], tmp_path / "home")
    corpus = Corpus.open(store.path(pipeline.inputs.downstream_corpus))
    assert corpus.languages == ("en", "en") and not corpus.monolingual
    held_out = 3  # training pairs with a side of a dev or test pair
    sizes = {**SPLITS, "train": SPLITS["train"] - held_out}
    assert {split: corpus.size(split) for split in corpus.splits} == sizes
    assert corpus.counts["train"]["held_out"] == held_out
    assert Corpus.open(store.path(pipeline.inputs.upstream_corpus)).monolingual
    for read, written in corpus.pairs("train"):
        if task == "question-generation":
            before, marked = read.split('"- ')
            answer, after = marked.split(' -"')
            assert after.startswith(" .")
            read = f"{before}{answer}{after}"
        assert written.removesuffix(" what?") in read
    evaluated = {steps.system.name: store.path(steps.evaluate) for steps in pipeline.systems}
    assert set(evaluated) == {"without", "mean", "ours"}
    for directory in evaluated.values():
        evaluation = json.loads((directory / "evaluation.json").read_text())
        assert evaluation["sentences"] == SPLITS["test"]
        assert set(evaluation["scores"]) >= {"BLEU", "ROUGE-L", "METEOR", "chrF"}
        assert (directory / "references.txt").read_text().splitlines() == [pair[1] for pair in corpus.pairs("test")]
    report = (store.path(pipeline.report) / "report.md").read_text()
    assert "en → en" in report and "ROUGE-L" in report and "Outputs side by side" in report


def test_the_upstream_model_may_be_of_other_languages(tmp_path: Path) -> None:
    """A translation model from German reads and writes English, whose code it has, in the task."""
    pipeline = configured(
        tmp_path,
        *QUESTIONS,
        "upstream.languages={source: de, target: en}",
        "upstream.objectives=[{kind: translation}]",
        "corpora.everyday={files: {train: [everyday.txt, everyday.txt], dev: [everyday.txt, everyday.txt]}}",
        "pretrain.dev_sentences=2",
        "cleaning.drop_held_out=false",
    )
    (ours,) = (steps for steps in pipeline.systems if steps.system.name == "ours")
    store = perform_all(pipeline, [ours.evaluate], tmp_path / "home")
    assert Corpus.open(store.path(pipeline.inputs.upstream_corpus)).languages == ("de", "en")
    bundle = Bundle.load(store.path(ours.finetune))
    assert set(bundle.encoder.languages) == {"de_XX", "en_XX"}
    assert (store.path(ours.evaluate) / "hypotheses.txt").read_text().count("\n") == SPLITS["test"]


def test_the_window_and_the_marks_are_in_a_corpus_s_fingerprint(tmp_path: Path) -> None:
    plain = configured(tmp_path, *QUESTIONS).inputs.downstream_corpus.fingerprint
    window = configured(tmp_path, *QUESTIONS, "question_generation.window=50").inputs.downstream_corpus.fingerprint
    marks = configured(
        tmp_path, *QUESTIONS, "question_generation.marks=['<', '>']"
    ).inputs.downstream_corpus.fingerprint
    fields = [configured(tmp_path, *FIELDS, *more) for more in ((), ("question_generation.window=50",))]
    assert len({plain, window, marks}) == 3
    assert len({pipeline.inputs.downstream_corpus.fingerprint for pipeline in fields}) == 1


def test_marks_that_the_upstream_vocabulary_cannot_spell_end_the_run_before_any_training(tmp_path: Path) -> None:
    pipeline = configured(tmp_path, *QUESTIONS, "question_generation.marks=['«', '»']")
    with pytest.raises(UserError, match="cannot spell the mark «"):
        perform_all(pipeline, [pipeline.models.pretrained], tmp_path / "home")
    assert not (tmp_path / "home" / "store" / "pretrain").exists()


def test_a_corpus_of_one_side_is_neither_a_task_nor_a_translation(tmp_path: Path) -> None:
    alone = configured(tmp_path, "text-to-text", "{files: {train: [everyday.txt]}}")
    with pytest.raises(UserError, match=r"corpora\.downstream.*where pairs are needed"):
        _ = alone.inputs.downstream_corpus
    translating = configured(tmp_path, *FIELDS, "upstream.objectives=[{kind: translation}]")
    with pytest.raises(UserError, match=r"corpora\.everyday.*where pairs are needed"):
        _ = translating.inputs.upstream_corpus
