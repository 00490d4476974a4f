"""What docs/extending.md shows works as it stands there: an initialiser and an objective."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from subgraft.config import objectives as config_objectives
from subgraft.config.corpora import Cleaning, CorpusSource, Languages
from subgraft.config.initialisers import ResegmentationSettings
from subgraft.config.training import TrainingSettings
from subgraft.data.sources.corpus_builder import build
from subgraft.embeddings.generators.generator import Generator
from subgraft.embeddings.generators.generator_loss import GeneratorLoss
from subgraft.embeddings.generators.simulation import Simulator
from subgraft.embeddings.initialisers import registry as initialiser_registry
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import side
from subgraft.training.objectives import registry as objective_registry
from subgraft.training.objectives.objective import Request
from toys import english, fitted_tokenizer, german, mbart, multilingual_tokenizer


def _shown(repository: Path) -> list[str]:
    """The page's pieces of code, in their order."""
    text = (repository / "docs" / "extending.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_the_shown_initialiser_transplants_a_model(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, entry, *_ = _shown(repository)
    (tmp_path / "first_subword.py").write_text(file, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import first_subword  # type: ignore[import-not-found]

    added = eval("{" + entry + "}", vars(first_subword))
    monkeypatch.setattr(initialiser_registry, "METHODS", {**initialiser_registry.METHODS, **added})
    model, source, target = mbart(), multilingual_tokenizer(), fitted_tokenizer()
    old = side(model, "decoder").input.weight.detach().clone()
    result, reports, _ = transplant(
        model, dict.fromkeys(("encoder", "decoder"), source), {"decoder": target}, Method("first-subword")
    )
    new = side(result, "decoder").input.weight
    unseen = [entry for entry in target.ids if entry not in source.ids]
    assert reports["decoder"].unseen == len(unseen) > 20
    for token in unseen:
        assert torch.equal(new[target.ids[token]], old[source.segment(token)[0]])


def test_the_shown_objective_trains_a_model_and_a_generator(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_class, file, entry = _shown(repository)[2:]
    # As if it stood in the module.
    exec(settings_class, vars(config_objectives))
    monkeypatch.setattr(config_objectives, "DeletionSettings", config_objectives.DeletionSettings, raising=False)  # type: ignore[attr-defined]
    (tmp_path / "deletion.py").write_text(file, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import deletion  # type: ignore[import-not-found]

    added = eval("{" + entry + "}", vars(deletion))
    monkeypatch.setattr(objective_registry, "OBJECTIVES", {**objective_registry.OBJECTIVES, **added})
    for language, lines in (("en", english(40)), ("de", german(40))):
        (tmp_path / f"train.{language}").write_text("".join(f"{line}\n" for line in lines))
    languages = Languages(source="en", target="de")
    corpus = build(CorpusSource(folder=str(tmp_path)), languages, Cleaning(), tmp_path / "corpus")
    bundle = Bundle(mbart(), multilingual_tokenizer(), multilingual_tokenizer())
    training = TrainingSettings(max_steps=1, batch_size=400, max_length=40, learning_rate=0.1, warmup_steps=1)
    wanted = deletion.DeletionSettings(share=0.5)
    (objective,) = objective_registry.objectives_of([wanted], Request(bundle, corpus, languages, training, 1)).values()
    batch = objective.batch(np.arange(20), 0)
    source, target = (int(part) for part in (batch.attention_mask.sum() - 40, batch.counts["loss"] - 40))
    assert 0.4 < source / target < 0.6
    objective.loss(0.0)(batch)["loss"].backward()
    assert all(parameter.grad is not None for parameter in bundle.model.parameters())
    view, generator = objective.view("decoder"), Generator("patt", 16)
    simulator = Simulator(view, bundle.decoder, ResegmentationSettings(merge_rate=0.4), 10, 1)
    sums = GeneratorLoss(bundle.model, generator, view, 0.5, 0.0, "input")(simulator.batch(np.arange(8), 0))
    (sums["prediction"] + sums["distillation"]).backward()
    assert generator.weight.grad is not None and generator.weight.grad.abs().sum() > 0
