"""Uses each extension that docs/extending.md shows, in a copy of the package that has all of them.

    PYTHONPATH=COPY:tests/support python tests/support/extended_package.py FOLDER

Prints the names of those that work, one a line.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import HeliumForCausalLM, SmolLM3ForCausalLM

from labelled import ENGLISH
from small_experiments import TINY, finish, written
from sourced import language_model, settings, some_features
from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.experiment import Experiment
from subgraft.config.initialisers import ResegmentationSettings
from subgraft.config.loading import load
from subgraft.config.training import TrainingSettings
from subgraft.contrib.conditioning.conditional_model import conditioned
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.embeddings.generators.generator import Generator
from subgraft.embeddings.generators.generator_loss import GeneratorLoss
from subgraft.embeddings.generators.simulation import Simulator
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.evaluation.metrics.sentence_statistics import plugin_metric, plugin_score, plugin_statistics
from subgraft.experiments.manifest import system_runs
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import count_parameters
from subgraft.modeling.sides import side
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from subgraft.training.objectives.compute.mixture import objectives_of
from subgraft.training.objectives.labelled import LabelledSettings
from subgraft.training.objectives.registry import OBJECTIVES
from subgraft.training.understanding.objective import with_task_head
from subgraft.training.understanding.predictor import Predictor
from toys import bert, cased_tokenizer, english, fitted_tokenizer, german, mbart, multilingual_tokenizer

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


def initialiser(folder: Path) -> None:
    """Each unseen token gets the row of its first subword; a configuration may name the initialiser."""
    model, source, target = mbart(), multilingual_tokenizer(), fitted_tokenizer()
    old = side(model, "decoder").input.weight.detach().clone()
    sides = dict.fromkeys(("encoder", "decoder"), source)
    result, reports, _ = transplant(model, sides, {"decoder": target}, Method("first-subword"))  # type: ignore[arg-type]
    new = side(result, "decoder").input.weight
    unseen = [entry for entry in target.ids if entry not in source.ids]
    assert reports["decoder"].unseen == len(unseen) > 20
    assert all(torch.equal(new[target.ids[token]], old[source.segment(token)[0]]) for token in unseen)
    systems = "systems=[{name: first-subword, initialiser: first-subword}]"
    assert load(CONFIGS / "quickstart.yaml", Experiment, [systems]).systems[0].initialiser == "first-subword"


def metric(folder: Path) -> None:
    """Scores are those of the function, signed with its package."""
    function = plugin_metric("length-ratio")
    statistics = plugin_statistics(function, None, ["one", "two"], ["one", "four"], "en")
    score = plugin_score(function, statistics)
    assert score.value == pytest.approx((1 + 3 / 4) / 2) and score.signature == "length-ratio|mean|mypackage:1.0"
    assert load(CONFIGS / "quickstart.yaml", Experiment, ["evaluation.metrics=[length-ratio]"]).evaluation.metrics


def family(folder: Path) -> None:
    """A checkpoint is counted by formula, loaded, and gets another vocabulary."""
    sizes: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    heads: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 24}
    tokenizer, target = multilingual_tokenizer(), fitted_tokenizer()
    ids = {role: tokenizer.special[name] for role, name in (("bos_token_id", "bos"), ("eos_token_id", "eos"))}
    for kind in (HeliumForCausalLM, SmolLM3ForCausalLM):
        described: Any = kind.config_class
        config = described(vocab_size=len(tokenizer), pad_token_id=0, head_dim=4, **ids, **sizes, **heads)
        model: Any = kind(config)
        counted = count_parameters(model.config.to_dict())
        assert counted.total == sum(parameter.numel() for parameter in model.parameters())
        Bundle(model, tokenizer, tokenizer).save(folder / config.model_type)
        bundle = Bundle.load(folder / config.model_type)
        assert type(bundle.model) is type(model)
        result, _, _ = transplant(bundle.model, {"decoder": bundle.decoder}, {"decoder": target}, Method("mean"))
        assert side(result, "decoder").input.weight.shape == (len(target), 16)


def objective(folder: Path) -> None:
    """The objective trains a model and, by its view, a generator."""
    for language, lines in (("en", english(40)), ("de", german(40))):
        (folder / f"train.{language}").write_text("".join(f"{line}\n" for line in lines))
    languages = Languages(source="en", target="de")
    corpus = build(CorpusSource(folder=str(folder)), languages, Cleaning(), folder / "corpus")
    bundle = Bundle(mbart(), multilingual_tokenizer(), multilingual_tokenizer())
    training = TrainingSettings(max_steps=1, batch_size=400, max_length=40, learning_rate=0.1, warmup_steps=1)
    deletion = OBJECTIVES["deletion"].model_validate({"share": 0.5})
    (trained,) = objectives_of([deletion], ObjectiveInputs(bundle, corpus, languages, training, 1)).values()
    batch = trained.batch(np.arange(20), 0)
    source, target = (int(part) for part in (batch.attention_mask.sum() - 40, batch.counts["loss"] - 40))
    assert 0.4 < source / target < 0.6
    trained.loss(0.0)(batch)["loss"].backward()
    assert all(parameter.grad is not None for parameter in bundle.model.parameters())
    view, generator = trained.view("decoder"), Generator("patt", 16)
    simulator = Simulator(view, bundle.decoder, ResegmentationSettings(merge_rate=0.4), 10, 1)
    sums = GeneratorLoss(bundle.model, generator, view, 0.5, 0.0, "input")(simulator.batch(np.arange(8), 0))
    (sums["prediction"] + sums["distillation"]).backward()
    assert generator.weight.grad is not None and generator.weight.grad.abs().sum() > 0
    listed = "upstream.objectives=[{kind: denoising}, {kind: deletion, share: 0.3, weight: 0.5}]"
    experiment = load(CONFIGS / "table3-mbart.yaml", Experiment, [listed])
    assert [each.kind for each in experiment.upstream.objectives] == ["denoising", "deletion"]


def conditioning(folder: Path) -> None:
    """The model reads its source, generates with a cache as without, and is counted by formula."""
    model = conditioned(language_model(), settings("summed"), seed=1)
    model.train(False)
    assert count_parameters(model.config.to_dict()).total == sum(each.numel() for each in model.parameters())
    features, mask = some_features()
    ids = torch.full((3, 4), 5)
    with torch.no_grad():
        read, hidden = (
            model(input_ids=features, attention_mask=shown, decoder_input_ids=ids).logits
            for shown in (mask, torch.zeros_like(mask))
        )
        expected = language_model()(input_ids=ids).logits
    assert torch.allclose(hidden, expected, atol=1e-5) and not torch.allclose(read, expected, atol=1e-2)
    generate: Any = model.generate  # type: ignore[misc]
    options = {"input_ids": features, "attention_mask": mask, "max_length": 12, "do_sample": False}
    assert torch.equal(generate(**options), generate(**options, use_cache=False))


def source(folder: Path) -> None:
    """A configuration may name the kind of source, and its pairs become a corpus, alone and with others."""
    pairs = list(zip(english(40), german(40), strict=True))
    for split, lines in (("train", pairs), ("dev", pairs[:4])):
        (folder / f"{split}.txt").write_text("".join(f"{line}\n" for pair in lines for line in pair))
    languages, cleaning = Languages(source="en", target="de"), Cleaning(drop_held_out=False)
    named = {"alternating": str(folder), "limit": {"train": 10}}
    corpus = build(CorpusSource.model_validate(named), languages, cleaning, folder / "corpus")
    assert list(corpus.lines("dev", "target")) == [target for _, target in pairs[:4]] and corpus.size("train") == 10
    both = {"together": [named, {"generated": "law", "limit": {"train": 5, "dev": 2, "test": 2}}]}
    assert build(CorpusSource.model_validate(both), languages, cleaning, folder / "both").size("train") == 15
    changes = [f"corpora.everyday={json.dumps(named)}"]
    assert load(CONFIGS / "quickstart.yaml", Experiment, changes).corpora["everyday"].kind.name == "alternating"


def task(folder: Path) -> None:
    """A configuration may name the task, and gets its defaults."""
    experiment = load(CONFIGS / "quickstart.yaml", Experiment, ["task=simplification"])
    assert experiment.evaluation.max_length_ratio == 1.5 and experiment.cleaning.max_ratio is None


def task_of_labels(folder: Path) -> None:
    """A configuration may name the task; its files are recognised and learnt, and its model predicts."""
    for split, start in (("train", 0), ("dev", 20), ("test", 30)):
        topics = [["animals", "plants"][: 1 + number % 2] for number in range(20)]
        lines = [{"body": text, "subjects": two} for text, two in zip(english(20, start), topics, strict=True)]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    source = {"labelled": {"folder": str(folder), "text": "body", "topics": "subjects"}}
    changes = ["task=topics", f"corpora.polarity={json.dumps(source)}", "labels={metrics: [F1 loose]}"]
    learnt = load(CONFIGS / "polarity.yaml", Experiment, changes).finetuned_on
    assert isinstance(learnt, LabelledSettings)
    corpus = build(CorpusSource.model_validate(source), ENGLISH, Cleaning(), folder / "corpus")
    bundle = Bundle(bert(), cased_tokenizer(), cased_tokenizer())
    predictor = Predictor(with_task_head(bundle, learnt, corpus, seed=3))
    assert (predictor.name, predictor.labels) == ("topics", ("animals", "plants"))
    (prediction,) = predictor.predict(["a text"])
    assert prediction.facts["probabilities"].keys() == {"animals", "plants"}


def measurement(folder: Path) -> None:
    """Its step is made for every system, the report shows what it wrote, and MLflow gets it by its name."""
    trained = ("pretrain.epochs=1", "finetune.select=last", "finetune.learning_rate=0.1", "finetune.warmup_steps=1")
    pipeline, store = finish(written(folder, TINY), *trained)
    page = (store.path(pipeline.report) / "report.md").read_text(encoding="utf-8")
    section = page.partition("## Moved embeddings")[2].partition("\n## ")[0]
    for steps, run in zip(pipeline.systems, system_runs(pipeline.systems), strict=True):
        before, after = (
            side(Bundle.load(store.path(step)).model, "decoder").input.weight
            for step in (steps.finetune.inputs["model"], steps.finetune)
        )
        cosine = torch.nn.functional.cosine_similarity(before, after).mean().item()
        assert 0 < cosine < 1 and f"{cosine:.3f}" in section
        assert run.parts["moved"] is steps.measured["moved"]


if __name__ == "__main__":
    for extension in (initialiser, metric, family, objective, conditioning, source, task, task_of_labels, measurement):
        place = Path(sys.argv[1]) / extension.__name__
        place.mkdir()
        try:
            extension(place)
            print(extension.__name__, flush=True)
        except Exception:
            traceback.print_exc()
