"""Language models with a source as models of this house: counted, kept, loaded, and given another vocabulary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.contrib.conditioning.conditional_model import ConditionalModel, conditioned
from subgraft.contrib.conditioning.family import with_source
from subgraft.embeddings.transplanting.transplant import Method
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.conditioning.settings import ConditioningSettings
from subgraft.modeling.conditioning.variants.registry import VariantName
from subgraft.modeling.families import count_parameters, family_of
from subgraft.modeling.sides import side
from subgraft.pipeline.compute.transfer import transfer
from subgraft.subwords.vocabulary.alignment import align
from subgraft.subwords.vocabulary.learn import learn
from toys import german, german_tokenizer, gpt2, llama

NAMES = get_args(VariantName)
SOURCES = {
    "class": {"kind": "class", "classes": ["bad", "good"], "vectors": 2},
    "features": {"kind": "features", "features": 3},
    "text": {"kind": "text", "vocabulary": 11, "layers": 2, "attention_heads": 2},
}
DECODER = {"d_model": 8, "layers": 2, "attention_heads": 2}


def _settings(variant: str, source: str = "class") -> ConditioningSettings:
    return ConditioningSettings.model_validate({"variant": variant, "source": SOURCES[source], "decoder": DECODER})


def _model(variant: str, source: str = "class", language_model: PreTrainedModel | None = None) -> ConditionalModel:
    return conditioned(language_model or gpt2(), _settings(variant, source), seed=1)


def _logits(model: PreTrainedModel, ids: Tensor) -> Tensor:
    classes = torch.tensor([[0], [1]])
    with torch.no_grad():
        logits: Tensor = model(input_ids=classes, decoder_input_ids=ids).logits
    return logits


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("variant", NAMES)
def test_config_json_shows_how_many_parameters_there_are(variant: str, source: str) -> None:
    for language_model in (gpt2(), llama()):
        if language_model.config.model_type == "llama" and variant in ("context-attention", "cross-attention", "none"):
            continue
        model = _model(variant, source, language_model)
        family, result = family_of(model), count_parameters(model.config.to_dict())
        assert result.total == model.num_parameters() and result.trained == model.num_parameters(only_trainable=True)
        before = with_source(language_model.config.to_dict(), _settings(variant, source))
        assert count_parameters(before) == result
        assert family.source(before) == _settings(variant, source).source


@pytest.mark.parametrize("variant", NAMES)
def test_saved_as_a_model_directory_it_is_loaded_again(variant: str, tmp_path: Path) -> None:
    bundle = Bundle(_model(variant), german_tokenizer(), german_tokenizer())
    bundle.save(tmp_path / "model")
    loaded = Bundle.load(tmp_path / "model")
    ids = torch.tensor([[1, 8, 9], [1, 9, 8]])
    assert torch.equal(_logits(loaded.model, ids), _logits(bundle.model, ids))
    trained = loaded.model.num_parameters(only_trainable=True)
    assert trained == bundle.model.num_parameters(only_trainable=True)
    assert loaded.max_positions == bundle.max_positions and list(loaded.tokenizers) == ["decoder"]


@pytest.mark.parametrize("variant", NAMES)
def test_another_vocabulary_leaves_the_source_and_what_is_new_as_they_are(variant: str, tmp_path: Path) -> None:
    old, new = german_tokenizer(), learn(german(), kind="unigram", size=70)
    bundle = Bundle(_model(variant), old, old)
    bundle.save(tmp_path / "old")
    transfer(tmp_path / "old", {"decoder": new}, Method("mean"), tmp_path / "new")
    fitted = Bundle.load(tmp_path / "new")
    tables = {"language_model.transformer.wte.weight", "language_model.lm_head.weight"}
    before, after = bundle.model.state_dict(), fitted.model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before.keys() - tables)
    origins = torch.from_numpy(align(old, new).origins)
    seen = (origins >= 0).nonzero()[:, 0]
    message = _logits(fitted.model, seen[-6:].repeat(2, 1))[..., seen]
    assert torch.allclose(
        message, _logits(bundle.model, origins[seen[-6:]].repeat(2, 1))[..., origins[seen]], atol=1e-5
    )
    assert side(fitted.model, "decoder").tied


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"conditioning": None}, "invalid source in config.json"),
        (
            {"conditioning": {"variant": "magic", "source": SOURCES["class"]}},
            "invalid source in config.json: conditioning.variant",
        ),
        ({"language_model": {"model_type": "marian"}}, "must be one of: gpt2"),
    ],
)
def test_a_configuration_that_is_none_is_refused(change: dict[str, object], message: str, tmp_path: Path) -> None:
    Bundle(_model("pseudo-self"), german_tokenizer(), german_tokenizer()).save(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text()) | change
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=message):
        Bundle.load(tmp_path / "model")
