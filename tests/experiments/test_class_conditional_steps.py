"""Text written for a class all the way: pretrained, fitted with a vocabulary, given classes, finetuned and measured."""

from __future__ import annotations

import json
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import GPT2Config, GPT2LMHeadModel, GPT2Model

from published import CHECKPOINTS
from small_classes import GPT2, classed
from small_experiments import finish, finish_steps
from subgraft.base.errors import UserError
from subgraft.config.evaluation import DrawSettings, MeasurementSettings
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.runtime import Runtime
from subgraft.evaluation.reporting.table import MainTable
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.search.space import grid, search_settings, template, trial_steps
from subgraft.experiments.search.trial_results import TrialResult, best
from subgraft.interfaces.api.model import generate
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.conditioning.sources import ClassSource
from subgraft.modeling.conditioning.variants.registry import VariantName
from subgraft.modeling.exporting.transformers import export_transformers
from subgraft.modeling.inference.write_text import Writer
from subgraft.orchestration.estimates.estimate import estimates
from subgraft.orchestration.execution.plan import make_plan
from subgraft.orchestration.store.store import Store
from toys import german, german_tokenizer, llama

LLAMA = "{family: llama, d_model: 16, layers: 1, attention_heads: 2, key_value_heads: 1, ffn_dim: 16}"
FINETUNE = "{epochs: 1, max_steps: 4, max_length: 30, batch_size: 500, precision: fp32, dev_sentences: 2}"


def _evaluation(store: Store, steps: object) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((store.path(steps.evaluate) / "evaluation.json").read_text())  # type: ignore[attr-defined]
    return result


def _curve(store: Store, steps: object) -> list[Any]:
    result: list[Any] = json.loads((store.path(steps.finetune) / "curve.json").read_text())  # type: ignore[attr-defined]
    return result


def test_old_and_own_vocabulary_are_compared_with_a_class_and_without(tmp_path: Path) -> None:
    finetune = "{epochs: 40, max_steps: 150, batch_size: 800, learning_rate: 0.01, precision: fp32, dev_sentences: 6}"
    measured = (
        "{speed_sentences: 4, speed_repeats: 1, bootstrap_samples: 20, draw: {temperature: 0.7, top_k: 20, seed: 3}}"
    )
    pipeline, store = finish(classed(tmp_path, finetune=finetune, evaluation=measured))
    lines = [json.loads(line) for line in (tmp_path / "downstream" / "test.jsonl").read_text().splitlines()]
    for steps in pipeline.systems:
        evaluation, bundle = _evaluation(store, steps), Bundle.load(store.path(steps.finetune))
        characters = sum(len(line["text"]) for line in lines)
        bits = _by_hand(bundle, lines, steps.system.conditioning is not None) / log(2) / characters
        assert evaluation["bits_per_character"] == pytest.approx(bits, abs=1e-4)
        assert evaluation["classifier_accuracy"] == 1.0  # the class is the first word
        assert 0 <= evaluation["adherence"] <= 1 and 0 < evaluation["distinct_2"] <= 1
        scores = evaluation["scores"]
        assert scores["adherence"]["value"] == pytest.approx(100 * evaluation["adherence"])
        assert scores["prompt ranking"]["signature"].startswith("candidates:2|chance:50.0|texts:6|seed:1")
        saved = evaluation["bits_per_character_of_another_class"] - evaluation["bits_per_character"]
        assert evaluation["bits_saved"] == pytest.approx(saved)
        other = evaluation["bits_per_character_of_another_class"]
        drift = [point["values"]["drift_feed_forward"] for point in _curve(store, steps)]
        assert drift[0] == 0 and drift[-1] > 0
        if steps.system.conditioning is None:
            assert other == evaluation["bits_per_character"]
            assert evaluation["prompt_ranking"] == 0.5, "a model that knows no class finds either"
        else:
            assert other > evaluation["bits_per_character"] + 0.005
            assert evaluation["prompt_ranking"] > 0.5
        assert (store.path(steps.evaluate) / "prompts.txt").read_text().split() == ["bad", "good", "bad", "good"]
    report = store.path(pipeline.report)
    assert [row[0] for row in MainTable.read(report).rows] == ["unconditional", "pseudo-self", "pseudo-self-own"]
    shown = (report / "report.md").read_text(encoding="utf-8")
    assert "the class" in shown and "## Scores of outputs" in shown and "](plots/drift.png)" in shown
    assert "prompt ranking candidates:2|chance:50.0" in shown


@pytest.mark.slow
def test_labels_of_other_lines_teach_a_model_nothing_of_the_class(tmp_path: Path) -> None:
    finetune = "{epochs: 40, max_steps: 150, batch_size: 800, learning_rate: 0.01, precision: fp32, dev_sentences: 6}"
    systems = (
        "[{name: ours, vocabulary: upstream, conditioning: pseudo-self},"
        " {name: shuffled, vocabulary: upstream, conditioning: pseudo-self, shuffled_sources: true}]"
    )
    pipeline, store = finish(classed(tmp_path, systems=systems, finetune=finetune))
    result = [_evaluation(store, steps) for steps in pipeline.systems]
    effects = [each["bits_per_character_of_another_class"] - each["bits_per_character"] for each in result]
    assert effects[0] > 0.005 and abs(effects[1]) < effects[0] / 4
    assert result[1]["classifier_accuracy"] == 1.0, "what judges has read the labels as they are"


@pytest.mark.slow
def test_learning_rates_are_searched_on_dev_by_bits_per_character(tmp_path: Path) -> None:
    search = (
        "{systems: [ours, scratch], space: {learning_rate: [1.0e-2, 1.0e-9]}, sampler: grid,"
        " objectives: [dev_bits_per_character], asha: null}"
    )
    systems = (
        "[{name: ours, vocabulary: upstream, conditioning: pseudo-self},"
        " {name: scratch, vocabulary: upstream, conditioning: none}]"
    )
    finetune = "{epochs: 1, max_steps: 8, batch_size: 500, learning_rate: 0.01, precision: fp32, dev_sentences: 6}"
    config = classed(tmp_path, systems=systems, search=search, finetune=finetune)
    whole, store = finish(config)
    experiment = load(config, Experiment)
    assert experiment.search is not None
    for search_of_one in experiment.search.each_system():
        each = Pipeline(experiment.model_copy(update={"search": search_of_one}), tmp_path)
        values = grid(search_settings(each).space, template(each))
        trials = [TrialResult(number, inputs, "finished") for number, inputs in enumerate(values, 1)]
        done = []
        for trial in trials:
            steps = trial_steps(each, trial)
            finish_steps(steps.targets, tmp_path)
            done.append(replace(trial, objectives=steps.objectives(store)))
        (chosen,) = best(done, search_settings(each).objectives)
        assert chosen.values == {"learning_rate": 0.01}, "less is better"
        assert not any(
            step.stage.stage_name == "evaluate" for trial in trials for step in trial_steps(each, trial).targets
        )
        own = next(steps for steps in whole.systems if steps.system.name == template(each).name)
        assert trial_steps(each, chosen).finetune.fingerprint == own.finetune.fingerprint, "a run has it"


def _by_hand(bundle: Bundle, lines: list[dict[str, str]], conditioned: bool) -> float:
    """Nats of lines between ends, from logits of one line at a time."""
    end, total = bundle.decoder.special["eos"], 0.0
    for line in lines:
        ids = torch.tensor([[end, *bundle.decoder.encode(line["text"]), end]])
        label = torch.tensor([[("bad", "good").index(line["label"])]])
        inputs = {"input_ids": label, "decoder_input_ids": ids} if conditioned else {"input_ids": ids}
        with torch.no_grad():
            message = bundle.model(**inputs).logits.double().log_softmax(-1)
        total -= float(message[0, :-1].gather(1, ids[0, 1:, None]).sum())
    return total


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "variants"), [(GPT2, get_args(VariantName)), (LLAMA, ("pseudo-self", "prepend"))])
def test_every_variant_goes_all_the_way(shape: str, variants: tuple[str, ...], tmp_path: Path) -> None:
    systems = "".join(f"- {{name: {name}, initialiser: mean, conditioning: {name}}}\n" for name in variants)
    config = classed(tmp_path, shape, systems=systems, evaluation="{speed_sentences: 2, speed_repeats: 1, beam: 2}")
    pipeline, store = finish(config)
    for steps in pipeline.systems:
        both = (steps.finetune.inputs["model"], steps.finetune)
        begun, finished = (Bundle.load(store.path(step)).model for step in both)
        before, after = begun.state_dict(), finished.state_dict()
        frozen = steps.system.conditioning in ("simple-fusion", "representation")
        body = [torch.equal(before[name], after[name]) for name in before if name.startswith("language_model.")]
        assert all(body) if frozen else not any(body[:2])
        record = store.find(steps.finetune)
        assert record is not None
        assert record.summary["trained_parameters"] == finished.num_parameters(only_trainable=True)
    again = Pipeline(load(config, Experiment, ["seeds=[2]"]), tmp_path)
    result = {each.step.name: each for each in estimates(store, make_plan(store, [again.report]), Runtime())}
    for steps in again.systems:
        made = Bundle.load(store.path(pipeline.system(steps.system, 1).finetune)).model
        assert result[steps.finetune.name].parameters.total == made.num_parameters()
        assert result[steps.finetune.name].parameters.trained == made.num_parameters(only_trainable=True)


def test_what_is_drawn_follows_the_seed(tmp_path: Path) -> None:
    systems = "[{name: ours, vocabulary: upstream, conditioning: pseudo-self}]"
    pipeline, store = finish(classed(tmp_path, systems=systems))
    bundle = Bundle.load(store.path(pipeline.systems[0].finetune))
    sources = ClassSource(["bad", "good"]).encode(["good"] * 8)

    def drawn(seed: int) -> list[str]:
        return Writer(bundle, MeasurementSettings(draw=DrawSettings(seed=seed)), max_tokens=20)(sources)

    assert drawn(1) == drawn(1) and drawn(1) != drawn(2) and len(set(drawn(1))) > 1
    model = store.path(pipeline.systems[0].finetune)
    searched = Writer(bundle, MeasurementSettings(beam=2), max_tokens=20)(sources[:1])
    assert generate(model, ["good"], beam=2, max_tokens=20) == searched
    with pytest.raises(UserError, match="unknown class 'fine'"):
        generate(model, ["fine"])
    with pytest.raises(UserError, match="no class for a language model with a source"):
        export_transformers(model, tmp_path / "out")


def test_a_checkpoint_without_a_place_for_the_source_is_refused_before_anything_runs(tmp_path: Path) -> None:
    Bundle(llama(), german_tokenizer(), german_tokenizer()).save(tmp_path / "llama")
    inputs = {"upstream": "{checkpoint: llama, objectives: [{kind: causal}]}", "finetune": FINETUNE}
    systems = "[{name: ours, vocabulary: upstream, conditioning: %s}]"
    config = classed(tmp_path, GPT2, systems=systems % "cross-attention", **inputs)
    with pytest.raises(UserError, match="does not support attention to a source"):
        _ = Pipeline(load(config, Experiment), tmp_path).report
    pipeline = Pipeline(load(config, Experiment, ["systems.0.conditioning=pseudo-self"]), tmp_path)
    assert pipeline.report
    CHECKPOINTS["opt-350m"].publish(tmp_path / "opt")
    changes = ["systems.0.conditioning=pseudo-self", "upstream.checkpoint=opt"]
    with pytest.raises(UserError, match="embeddings narrower than its hidden states, and takes no source"):
        _ = Pipeline(load(config, Experiment, changes), tmp_path).report


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"task": "continuation"}, "conditioning needs a source, which `task: class-conditional` or"),
        (
            {"systems": "[{name: a, initialiser: mean, conditioning: pseudo-self, tie_to_sources: true}]"},
            "class-conditional trains a whole model: leave out tie_to_sources",
        ),
        (
            {"model": LLAMA, "systems": "[{name: a, initialiser: mean, conditioning: none}]"},
            "conditioning none needs layers that can attend to a source",
        ),
        ({"runtime": "{activation_checkpointing: true}"}, "would lose their source"),
        (
            {"systems": "[{name: a, vocabulary: upstream, shuffled_sources: true}]"},
            "system a: shuffled_sources needs `conditioning`",
        ),
        ({"finetune": FINETUNE.replace("{", "{shuffled_sources: true, ")}, "finetune.shuffled_sources: write"),
        (
            {
                "search": "{system: pseudo-self, space: {learning_rate: [0.1]}, sampler: grid, asha: null,"
                " objectives: [sentences_per_second]}"
            },
            "a search of class-conditional measures only dev_bits_per_character",
        ),
        ({"corpora": "{upstream: {folder: upstream}, downstream: {folder: upstream}}"}, "0 fields of kind label"),
        (
            {"task": "continuation", "systems": "[{name: a, vocabulary: upstream}]", "evaluation": "{draw: {}}"},
            "evaluation.draw is for text written for a source",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(sections: dict[str, str], message: str, tmp_path: Path) -> None:
    config = classed(tmp_path, sections.pop("model", GPT2), **sections)
    with pytest.raises(UserError) as raised:
        _ = Pipeline(load(config, Experiment), tmp_path).report
    assert message in str(raised.value)


def test_a_published_gpt2_is_given_a_class_and_a_vocabulary(tmp_path: Path) -> None:
    """As the hub has them: vocab.json, merges.txt, config.json and model.safetensors, in names without a prefix."""
    place = tmp_path / "gpt2"
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(german(), vocab_size=330, special_tokens=["<|endoftext|>"])
    end, size = trained.token_to_id("<|endoftext|>"), trained.get_vocab_size()
    shape = GPT2Config(
        vocab_size=size, n_positions=64, n_embd=16, n_layer=1, n_head=2, bos_token_id=end, eos_token_id=end
    )
    published = GPT2LMHeadModel(shape).eval()
    GPT2Model.save_pretrained(published.transformer, place)
    trained.save_model(str(place))
    systems = (
        "[{name: old, vocabulary: upstream, conditioning: pseudo-self},"
        " {name: own, initialiser: mean, conditioning: context-attention}]"
    )
    upstream = "{checkpoint: gpt2, objectives: [{kind: causal}]}"
    config = classed(tmp_path, upstream=upstream, systems=systems, finetune=FINETUNE)
    pipeline, store = finish(config)
    begun: Any = Bundle.load(store.path(pipeline.systems[0].finetune.inputs["model"])).model.language_model
    ids = torch.arange(20)[None]
    assert torch.equal(begun(ids).logits, published(ids).logits)
    assert all(_evaluation(store, steps)["bits_per_character"] > 0 for steps in pipeline.systems)
