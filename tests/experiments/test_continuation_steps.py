"""Decoders alone all the way: pretrained, fitted with a vocabulary, finetuned, measured, and asked to write."""

from __future__ import annotations

import json
import re
import shutil
from math import log
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from small_experiments import finish, planned, tiny, written
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.runtime import Runtime
from subgraft.evaluation.reporting.table import MainTable, escape_markdown
from subgraft.experiments.fit.text_fit import TextOutcome
from subgraft.experiments.model_card import SelectedModel
from subgraft.experiments.model_selection import Finetuned, Selection
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.plan_warnings import unknown_tokens
from subgraft.modeling.bundle import Bundle
from subgraft.orchestration.estimates.estimate import estimates
from subgraft.orchestration.execution.plan import make_plan
from subgraft.orchestration.store.store import Store

GPT2 = "{family: gpt2, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16, max_positions: 256}"
LLAMA = "{family: llama, d_model: 16, layers: 1, attention_heads: 2, key_value_heads: 1, ffn_dim: 16}"
SYSTEMS = """\
- {name: plain, vocabulary: upstream}
- {name: mean, initialiser: mean}
- {name: ours, initialiser: patt, kd_weight: 0.5}
"""


def continued(shape: str, **sections: str) -> str:
    inputs = {
        "task": "continuation",
        "languages": "{source: de, target: de}",
        "upstream": "{corpus: upstream, objectives: [{kind: causal}], vocabulary: {size: 60, byte_fallback: false}}",
        "model": shape,
        "pretrain": "{epochs: 4, batch_size: 500, precision: fp32, dev_sentences: 4}",
        "generator_training": "{max_steps: 2, batch_size: 500, precision: fp32}",
        "systems": SYSTEMS,
    }
    return tiny(**inputs | sections)


@pytest.mark.parametrize("model", [GPT2, LLAMA])
def test_a_decoder_alone_is_fitted_finetuned_and_judged_by_bits_per_character(model: str, tmp_path: Path) -> None:
    pipeline, store = finish(written(tmp_path, continued(model)))
    lines = (tmp_path / "downstream" / "test.de").read_text(encoding="utf-8").splitlines()[:3]
    for steps in pipeline.systems:
        evaluation = json.loads((store.path(steps.evaluate) / "evaluation.json").read_text())
        bundle = Bundle.load(store.path(steps.finetune))
        total, tokens = by_hand(bundle, lines)
        characters = sum(map(len, lines))
        assert evaluation["bits_per_character"] == pytest.approx(total / log(2) / characters, abs=1e-4)
        assert evaluation["tokens_per_sentence"] == pytest.approx(tokens / len(lines))
        statistics = load_file(store.path(steps.evaluate) / "statistics.safetensors")
        assert statistics["characters"].tolist() == [len(line) for line in lines]
        assert np.isclose(statistics["bits"].sum(), total / log(2), rtol=1e-4)
        assert "scores" not in evaluation and "calibration" not in evaluation
        curve = json.loads((store.path(steps.finetune) / "curve.json").read_text())
        assert all(set(point["values"]) >= {"bits_per_character"} and "bleu" not in point["values"] for point in curve)
    message(pipeline, store)


def message(pipeline: Pipeline, store: Store) -> None:
    """The table, the report and the model card speak of bits per character, and of no BLEU of outputs."""
    report = store.path(pipeline.report)
    shown = MainTable.read(report)
    evaluations = [
        json.loads((store.path(steps.evaluate) / "evaluation.json").read_text()) for steps in pipeline.systems
    ]
    column = [heading.replace("\n", "") for heading in shown.headings].index("bits/char")
    assert [row[column] for row in shown.rows] == [f"{each['bits_per_character']:.3f}" for each in evaluations]
    assert not any("BLEU" in heading for heading in shown.headings)
    written_out = (report / "report.md").read_text(encoding="utf-8")
    assert "Bits per character of the test text" in written_out and "the text itself" in written_out
    outcome = TextOutcome.read(pipeline, store)
    assert str(outcome.answer) == shown.answer and re.match("(Take|Keep) ", shown.answer), "as a fit prints it"
    assert f"**{escape_markdown(outcome.answer.sentence)}**" == written_out.splitlines()[4]
    assert [row["system"] for row in outcome.rows()] == list(outcome.data.system_names)
    result = [Finetuned.read(steps, store) for steps in pipeline.systems]
    best = Selection.of(result).chosen
    assert best is not None
    trained = [one.weights.bits or 0.0 for one in result if one.weights.step > 0]
    assert best.weights.bits == min(trained)
    chosen = SelectedModel.of("model", pipeline, best.steps, best.weights, store)
    assert "best by dev bits per character" in chosen.card() and "BLEU" not in chosen.card()
    assert chosen.tags()["dev.bits per character"] == f"{best.weights.bits:.4f}"


def by_hand(bundle: Bundle, lines: list[str]) -> tuple[float, int]:
    """Nats of lines that stand between ends, and how many tokens these are of, from transformers' own logits."""
    end, total, tokens = bundle.decoder.special["eos"], 0.0, 0
    for line in lines:
        ids = torch.tensor([[end, *bundle.decoder.encode(line), end]])
        with torch.no_grad():
            message = bundle.model(input_ids=ids).logits.double().log_softmax(-1)
        total -= float(message[0, :-1].gather(1, ids[0, 1:, None]).sum())
        tokens += ids.shape[1] - 1
    return total, tokens


def test_the_report_says_whether_models_write_the_tokens_that_they_have(tmp_path: Path) -> None:
    pipeline, store = finish(written(tmp_path, continued(GPT2, intrinsic="{tokens: 3}")))
    report = (store.path(pipeline.report) / "report.md").read_text(encoding="utf-8")
    assert "## Intrinsic quality" in report
    section = report.partition("## Written text")[2]
    for steps in pipeline.systems:
        folder, bundle = store.path(steps.evaluate), Bundle.load(store.path(steps.finetune))
        figures = json.loads((folder / "evaluation.json").read_text())["written"]
        prompts = (folder / "prompts.txt").read_text(encoding="utf-8").splitlines()
        outputs = (folder / "continuations.txt").read_text(encoding="utf-8").splitlines()
        encode = bundle.decoder.encode
        needed = sum(len(encode(p + o)) - len(encode(p)) for p, o in zip(prompts, outputs, strict=True))
        assert figures["needed"] == needed and figures["characters"] == sum(map(len, outputs))
        assert figures["outputs"] == len(outputs) == 2 and figures["tokens"] >= 1
        assert re.search(rf"\| {steps.system.name} +\| +{figures['tokens']} \|", section), section
    page = (store.path(pipeline.report) / "report.html").read_text(encoding="utf-8")
    assert "seconds of training" in page  # both learning curves
    assert "characters read" in page


def test_forgetting_is_bits_of_the_upstream_test_set_before_and_after(tmp_path: Path) -> None:
    evaluation = "{test_sentences: 3, upstream_sentences: 4, speed_sentences: 2, speed_repeats: 1}"
    pipeline, store = finish(written(tmp_path, continued(GPT2, evaluation=evaluation)))
    lines = (tmp_path / "upstream" / "test.de").read_text(encoding="utf-8").splitlines()[:4]
    figures = []
    for steps in pipeline.systems:
        before, after = (steps.measured[moment] for moment in ("upstream_before", "upstream_after"))
        for step, model in ((before, before.inputs["model"]), (after, steps.finetune)):
            evaluated = json.loads((store.path(step) / "evaluation.json").read_text())
            total, _ = by_hand(Bundle.load(store.path(model)), lines)
            figures.append(total / log(2) / sum(map(len, lines)))
            assert evaluated["bits_per_character"] == pytest.approx(figures[-1], abs=1e-4)
    section = (store.path(pipeline.report) / "report.md").read_text(encoding="utf-8").partition("## Forgetting")[2]
    assert all(f"{figure:.3f}" in section for figure in figures)


def test_generators_are_trained_on_the_text_itself_if_there_is_no_other(tmp_path: Path) -> None:
    before = tmp_path / "before"
    before.mkdir()
    pretrained, store = finish(written(before, continued(GPT2, systems="[{name: plain, vocabulary: upstream}]")))
    shutil.copytree(store.path(pretrained.models.pretrained), tmp_path / "model")
    systems = "[{name: ours, initialiser: patt, kd_weight: 0.5}, {name: net, initialiser: network, kd_weight: 0.5}]"
    network = "{max_steps: 2, batch_size: 500, precision: fp32, warmup_steps: 1, learning_rate: 0.001}"
    sections = {"upstream": "{checkpoint: model, objectives: [{kind: causal}]}", "network_training": network}
    sections["finetune"] = "{epochs: null, max_steps: 2, batch_size: 500, max_length: 200, precision: fp32}"
    pipeline, store = finish(written(tmp_path, continued(GPT2, systems=systems, **sections)))
    for steps in pipeline.systems:
        assert steps.generator is not None
        assert steps.generator.inputs["corpus"] is pipeline.inputs.downstream_corpus
        assert store.find(steps.generator) is not None
        assert len(Bundle.load(store.path(steps.finetune)).decoder) > 0


@pytest.mark.parametrize("model", [GPT2, LLAMA])
def test_inner_layers_stay_to_the_byte(model: str, tmp_path: Path) -> None:
    finetune = "{max_steps: 2, batch_size: 500, precision: fp32, select: last, learning_rate: 0.01, outer_layers: 1}"
    deep, mean = model.replace("layers: 1", "layers: 3"), "[{name: mean, initialiser: mean}]"
    pipeline, store = finish(written(tmp_path, continued(deep, finetune=finetune, systems=mean)))
    (steps,) = pipeline.systems
    before, after = (
        Bundle.load(store.path(step)).model.state_dict() for step in (steps.finetune.inputs["model"], steps.finetune)
    )
    unchanged = {name for name in before if torch.equal(before[name], after[name])}
    assert unchanged == {name for name in before if re.search(r"\.(h|layers)\.1\.", name)} and len(unchanged) > 5


def test_weights_with_the_fewest_dev_bits_are_kept(tmp_path: Path) -> None:
    """A rate far too high: what it begins with is best, and stays."""
    systems = "[{name: plain, vocabulary: upstream, learning_rate: 1000.0}]"
    finetune = "{epochs: 1, max_steps: 4, batch_size: 500, precision: fp32, dev_sentences: 2, warmup_steps: 1}"
    pipeline, store = finish(written(tmp_path, continued(GPT2, systems=systems, finetune=finetune)))
    (steps,) = pipeline.systems
    assert Finetuned.read(steps, store).weights.step == 0
    before, after = (
        Bundle.load(store.path(step)).model.state_dict() for step in (pipeline.models.pretrained, steps.finetune)
    )
    assert all(torch.equal(before[name], after[name]) for name in before)
    warning = Selection.of([Finetuned.read(steps, store)]).warning
    assert warning is not None and "dev bits per character below" in warning


def test_a_plan_shows_updates_and_parameters_before_and_after_the_text_is_there(tmp_path: Path) -> None:
    config = written(tmp_path, continued(GPT2, finetune="{epochs: 2, batch_size: 500, precision: fp32}"))
    pipeline = planned(config)
    store = Store(tmp_path / "home")
    before = estimates(store, make_plan(store, [pipeline.report]), Runtime())
    _, store = finish(config)
    again = planned(config, "seeds=[2]")
    result = estimates(store, make_plan(store, [again.report]), Runtime())
    assert {each.step.name for each in result} < {each.step.name.replace("seed 1", "seed 2") for each in before}
    (plain,) = [each for each in result if each.step.name == "finetune plain seed 2"]
    finished = store.find(again.models.pretrained)
    assert finished is not None and plain.parameters.total == finished.summary["parameters"]
    steps = store.find(pipeline.systems[0].finetune)
    assert steps is not None and plain.workload.updates == steps.summary["steps"]
    assert unknown_tokens(store, again.models.pretrained, again.inputs.downstream_corpus)[0].startswith(
        "the upstream decoder's vocabulary"
    )


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"languages": "{source: en, target: de}"}, "continuation reads text in one language"),
        ({"task": "text-to-text"}, "text-to-text needs an encoder.*`task: continuation`"),
        ({"sides": "[encoder, decoder]"}, r"`sides: \[decoder\]`"),
        ({"finetune": "{max_steps: 1, batch_size: 9, select: bleu}"}, "continuation has no BLEU"),
        ({"evaluation": "{calibration: true}"}, "evaluation.calibration applies to outputs for a source"),
        (
            {"upstream": "{corpus: upstream}", "model": "{d_model: 16, attention_heads: 2, ffn_dim: 16}"},
            "continuation is for decoders alone.*kind: causal",
        ),
    ],
)
def test_what_cannot_be_continued_is_refused(changes: dict[str, str], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=complaint):
        load(written(tmp_path, continued(GPT2, **changes)), Experiment)


def test_text_of_two_sides_is_not_continued(tmp_path: Path) -> None:
    """Within one language a corpus can still have sources and targets."""
    corpora = "{upstream: {folder: upstream}, downstream: {columns: {files: {train: p, dev: p, test: p}}}}"
    config = written(tmp_path, continued(GPT2, corpora=corpora))
    (tmp_path / "p").write_text("eins\tzwei\n")
    with pytest.raises(UserError, match="two texts, where one is needed"):
        _ = planned(config).report
