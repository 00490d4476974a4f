"""Models that predict labels, all the way: pretrained, fitted with a vocabulary, finetuned, judged and reported."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file

from labelled import ENGLISH, write_files
from small_experiments import finish, tiny, written
from subgraft.base.errors import UserError
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.reporting.table import MainTable
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.transformers import export_transformers
from subgraft.modeling.load import save_model
from subgraft.training.understanding.predictor import Predictor
from toys import bert, cased_tokenizer
from whole_runs import run_config

SHAPES = {
    "bert": "{family: bert, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16, max_positions: 128}",
    "gpt2": "{family: gpt2, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16, max_positions: 128}",
    "mbart": "{family: mbart, d_model: 16, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 16, "
    "max_positions: 128}",
}
KINDS = {"bert": ("masked", "wordpiece"), "gpt2": ("causal", "byte-level-bpe"), "mbart": ("denoising", "unigram")}
SYSTEMS = """\
- {name: old, vocabulary: upstream}
- {name: mean, initialiser: mean}
- {name: ours, initialiser: patt}
"""


def labelled(task: str, family: str, place: Path, systems: str = SYSTEMS, **sections: str) -> Path:
    """A configuration of a task of labels and its files. The upstream model learns to write or to fill English."""
    objective, kind = KINDS[family]
    size = 400 if kind == "byte-level-bpe" else 90
    source = write_files(task, place / "labelled", {"train": 60, "dev": 12, "test": 14})
    source["labelled"]["folder"] = "labelled"
    written_source = json.dumps(source)
    inputs = {
        "task": task,
        "seeds": "[1, 2]",
        "languages": "{source: en, target: en}",
        "corpora": f"{{upstream: {{folder: upstream, languages: [en]}}, downstream: {written_source}}}",
        "cleaning": "{drop_held_out: false, max_characters: null, max_ratio: null}",
        "upstream": f"{{corpus: upstream, objectives: [{{kind: {objective}}}], "
        f"vocabulary: {{kind: {kind}, size: {size}, byte_fallback: false}}}}",
        "downstream": f"{{corpus: downstream, vocabulary: {{kind: {kind}, size: {size + 20}, byte_fallback: false}}}}",
        "model": SHAPES[family],
        "pretrain": "{epochs: 1, max_steps: 4, batch_size: 500, max_length: 64, precision: fp32, dev_sentences: 2}",
        "generator_training": "{max_steps: 2, batch_size: 500, max_length: 64, precision: fp32}",
        "finetune": "{epochs: 2, batch_size: 500, max_length: 64, precision: fp32, dev_sentences: 8, "
        "learning_rate: 0.01}",
        "evaluation": "{speed_sentences: 2, speed_repeats: 1, test_sentences: 12, bootstrap_samples: 20}",
        "systems": systems,
    }
    return written(place, tiny(**inputs | sections))


def test_classes_are_predicted_from_the_configuration_to_the_report(tmp_path: Path) -> None:
    pipeline, store = finish(labelled("classification", "bert", tmp_path))
    names = {steps.system.name for steps in pipeline.systems}
    assert names == {"old", "mean", "ours"} and len(pipeline.systems) == 6
    for steps in pipeline.systems:
        evaluated, model = store.path(steps.evaluate), store.path(steps.finetune)
        lines = (tmp_path / "labelled" / "test.jsonl").read_text().splitlines()[:12]
        texts = [json.loads(line)["text"] for line in lines]
        assert (evaluated / "sources.txt").read_text().splitlines() == texts
        said = (evaluated / "hypotheses.txt").read_text().splitlines()
        exported = tmp_path / "exported" / f"{steps.system.name}-{steps.seed}"
        exported.mkdir(parents=True)
        export_transformers(model, exported)
        answered = transformers.pipeline("text-classification", model=str(exported), device="cpu")(texts)
        assert [each["label"] for each in answered] == said and {*said} <= {"long", "short"}
    report = store.path(pipeline.report)
    page, markdown = ((report / f"report.{form}").read_text() for form in ("html", "md"))
    for text in ("accuracy", "F1 macro", "MCC", "Confused classes", "Calibration", "long", "short", "ours"):
        assert text in page and text in markdown
    assert {path.stem for path in (report / "plots").glob("*.png")} >= {"confusion", "reliability", "learning_curves"}
    shown = MainTable.read(report)
    assert [row[0] for row in shown.rows] == ["old", "mean", "ours"] and "accuracy" in shown.headings


def test_the_negative_class_counts_from_dev_scores_to_the_command_that_evaluates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judged = "{negative: after, metrics: [F1 micro, F1 of before, accuracy]}"
    systems = "[{name: old, vocabulary: upstream}]"
    config = labelled("relation-classification", "bert", tmp_path, systems, seeds="[1]", labels=judged)
    pipeline, store = finish(config)
    (steps,) = pipeline.systems
    model, evaluated = store.path(steps.finetune), store.path(steps.evaluate)
    entry = json.loads((model / "config.json").read_text())["subgraft_task"]
    assert entry["negative"] == "after" and entry["metrics"] == ["F1 micro", "F1 of before", "accuracy"]
    scores = json.loads((evaluated / "evaluation.json").read_text())["scores"]
    assert list(scores) == entry["metrics"] and scores["F1 micro"]["signature"].endswith("|without:after")
    # With two classes, of which one does not count, the mean over classes is the F1 of the other.
    assert scores["F1 micro"]["value"] == pytest.approx(scores["F1 of before"]["value"])
    curve = json.loads((model / "curve.json").read_text())
    predictor = Predictor.load(model, ENGLISH)
    dev, _ = predictor.statistics(Corpus.open(store.path(steps.finetune.inputs["corpus"])), "dev")
    whole = predictor.task.score({name: counts[:8] for name, counts in dev.items()})
    assert whole == pytest.approx(max(point["values"]["score"] for point in curve))
    test = str(tmp_path / "labelled" / "test.jsonl")
    assert main(["evaluate", "--model", str(model), "--labels", test, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["scores"]
    assert [each["name"] for each in printed] == entry["metrics"] and "without:after" in printed[0]["signature"]
    assert "without:after" in (store.path(pipeline.report) / "report.md").read_text()


@pytest.mark.parametrize(
    ("task", "judged", "complaint"),
    [
        (
            "relation-classification",
            "{negative: none}",
            "labels.negative: 'none' is not a class of the training examples",
        ),
        ("relation-classification", "{metrics: [RMSE]}", "labels.metrics: 'RMSE' is not a metric of these"),
        ("classification", "{metrics: [F1 of round]}", "'F1 of round' is not a metric"),
        ("tagging", "{negative: O}", "labels.negative: none of entity F1, entity precision"),
    ],
)
def test_what_a_task_cannot_be_judged_by_is_refused_before_anything_runs(
    task: str, judged: str, complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=complaint):
        finish(labelled(task, "bert", tmp_path, labels=judged))
    assert not (tmp_path / "home").exists()


def test_numbers_of_single_texts_are_learnt_all_the_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = labelled("regression", "bert", tmp_path, "[{name: mean, initialiser: mean}]", seeds="[1]")
    config.write_text(re.sub(r'"?text_pair"?: "?second"?,? *', "", config.read_text()))
    pipeline, store = finish(config)
    (steps,) = pipeline.systems
    model = store.path(steps.finetune)
    test = tmp_path / "labelled" / "test.jsonl"
    records = [json.loads(line) for line in test.read_text().splitlines()]
    predictor = Predictor.load(model, ENGLISH)
    assert predictor.name == "regression" and predictor.form.texts == ("text",)
    said = (store.path(steps.evaluate) / "hypotheses.txt").read_text().splitlines()
    assert [each.text for each in predictor.predict([each["text"] for each in records[:12]])] == said
    lines = "".join(json.dumps({"text": each["text"], "score": each["value"]}) + "\n" for each in records)
    (tmp_path / "scores.jsonl").write_text(lines)
    assert main(["evaluate", "--model", str(model), "--labels", str(tmp_path / "scores.jsonl")]) == 0
    assert capsys.readouterr().out.startswith("Pearson\t")


def body_of(kind: str, place: Path) -> dict[str, Any]:
    """Publish a checkpoint without a head that predicts tokens; the weights that a finetuning must begin with."""
    tokenizer = cased_tokenizer()
    if kind == "discriminator":
        shape: Any = {"embedding_size": 8, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        config = transformers.ElectraConfig(
            vocab_size=len(tokenizer), intermediate_size=16, max_position_embeddings=128, **shape
        )
        torch.manual_seed(4)
        model: Any = transformers.ElectraForPreTraining(config)
    else:
        masked = bert()
        model = transformers.BertForPreTraining(masked.config) if kind == "pretrained" else None
        model = model or transformers.BertModel(masked.config)
    save_model(model, {"encoder": tokenizer, "decoder": tokenizer}, place)
    return dict(model.base_model.state_dict())


@pytest.mark.parametrize("kind", ["discriminator", "pretrained", "body"])
def test_a_checkpoint_that_predicts_no_tokens_is_finetuned(kind: str, tmp_path: Path) -> None:
    published = body_of(kind, tmp_path / "published")
    if kind == "discriminator":  # as google/electra-small-discriminator is published
        weights = load_file(tmp_path / "published" / "model.safetensors")
        torch.save(weights, tmp_path / "published" / "pytorch_model.bin")
        (tmp_path / "published" / "model.safetensors").unlink()
        (tmp_path / "published").rename(tmp_path / "torch")
        assert main(["convert", str(tmp_path / "torch"), "--out", str(tmp_path / "published")]) == 0
    upstream = "{checkpoint: published, objectives: [{kind: masked}]}"
    systems = "[{name: old, vocabulary: upstream}, {name: mean, initialiser: mean}]"
    config = labelled("classification", "bert", tmp_path, systems, upstream=upstream, seeds="[1]")
    finetune = "{epochs: 1, max_steps: 1, batch_size: 500, max_length: 32, learning_rate: 1.0e-12, dev_sentences: 4}"
    pipeline, store = finish(config, f"finetune={finetune}")
    for steps in pipeline.systems:
        loaded = Bundle.load(store.path(steps.finetune))
        assert type(loaded.model).__name__.endswith("ForSequenceClassification")
        assert loaded.model.config.id2label == {0: "long", 1: "short"}
        weights = loaded.model.base_model.state_dict()
        table = "embeddings.word_embeddings.weight"
        assert weights.keys() == published.keys()
        for name, tensor in weights.items():
            if name != table or steps.system.name == "old":
                assert torch.allclose(tensor, published[name].to(tensor.dtype), atol=1e-6), name
        assert len(weights[table]) == len(loaded.encoder)


@pytest.mark.parametrize("kind", ["discriminator"])
def test_what_needs_to_predict_tokens_is_refused_before_anything_runs(kind: str, tmp_path: Path) -> None:
    body_of(kind, tmp_path / "published")
    upstream = "{checkpoint: published, corpus: upstream, objectives: [{kind: masked}]}"
    config = labelled("classification", "bert", tmp_path, upstream=upstream)
    with pytest.raises(UserError, match="ELECTRA discriminator"):
        finish(config)
    assert not (tmp_path / "home").exists()


def test_a_task_whose_head_the_family_lacks_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no mbart model with a head that tags tokens"):
        finish(labelled("tagging", "mbart", tmp_path))
    assert not (tmp_path / "home").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "family", "metrics"),
    [
        ("tagging", "gpt2", ("entity F1", "tag accuracy")),
        ("span-extraction", "gpt2", ("token F1", "exact match")),
        ("pair-classification", "mbart", ("accuracy", "MCC")),
        ("ranking", "bert", ("MRR", "NDCG@10")),
    ],
)
def test_every_kind_of_model_is_fitted_and_predicts_alone_the_same_as_in_evaluation(
    task: str, family: str, metrics: tuple[str, ...], tmp_path: Path
) -> None:
    pipeline, store = finish(labelled(task, family, tmp_path, seeds="[1]"))
    records = read_records(tmp_path / "labelled" / "test.jsonl", task)[:12]
    for steps in pipeline.systems:
        said = (store.path(steps.evaluate) / "hypotheses.txt").read_text(encoding="utf-8").splitlines()
        predictor = Predictor.load(store.path(steps.finetune), ENGLISH)
        assert predictor.name == task
        inputs = [predictor.form.of_value(record, "test") for record in records]
        assert [each.text for each in predictor.predict(inputs)] == said
    report = store.path(pipeline.report)
    page, markdown = ((report / f"report.{form}").read_text(encoding="utf-8") for form in ("html", "md"))
    assert all(metric in page and metric in markdown for metric in metrics)
    assert [row[0] for row in MainTable.read(report).rows] == ["old", "mean", "ours"]
    drawn = {path.stem for path in (report / "plots").glob("*.png")}
    assert ("confusion" in drawn) is (task == "pair-classification") and "learning_curves" in drawn


def read_records(path: Path, task: str) -> list[dict[str, Any]]:
    """The records of a file as inputs of a model; those of one query are one input."""
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if task == "pair-classification":
        return [{"text": each["text"], "text_pair": each["second"]} for each in records]
    if task != "ranking":
        return records
    queries: dict[str, list[str]] = {}
    for each in records:
        queries.setdefault(each["query"], []).append(each["candidate"])
    return [{"query": query, "candidates": candidates} for query, candidates in queries.items()]


@pytest.mark.slow
@pytest.mark.ray
def test_a_run_can_be_compared_and_its_settings_searched(tmp_path: Path) -> None:
    search = (
        "{system: mean, space: {learning_rate: {min: 0.001, max: 0.02, log: true}}, trials: 2, sampler: random, "
        "asha: null, objectives: [dev_score, sentences_per_second]}"
    )
    systems = "[{name: old, vocabulary: upstream}, {name: mean, initialiser: mean}]"
    config = labelled("classification", "bert", tmp_path, systems, seeds="[1]", search=search)
    home = tmp_path / "home"
    printed = run_config(config, home)
    assert "accuracy" in printed
    (run,) = re.findall(r"subgraft compare (\S+)", printed)
    compared = subgraft(home, "compare", run)
    assert all(metric in compared for metric in ("accuracy", "F1 macro", "MCC", "calibration_error", "nats"))
    searched = subgraft(home, "search", str(config))
    assert "dev_score" in searched and "learning_rate" in searched and '- {name: "mean"' in searched


def subgraft(home: Path, *arguments: str) -> str:
    """What a command prints, which must succeed."""
    command = [sys.executable, "-m", "subgraft", *arguments]
    environment = {**os.environ, "SUBGRAFT_HOME": str(home)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
