"""A BART behind a new encoder of a foreign language: two steps of training, and what transformers loads."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

from small_experiments import finish_steps, tiny, written
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.pipeline import Pipeline
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import FAMILIES, count_parameters, family_of
from subgraft.modeling.sides import encoder_states, shares_table
from subgraft.orchestration.estimates.model_forecast import count_model_parameters, model_config
from subgraft.pipeline.compute.models import with_source_encoder
from subgraft.training.phases import first_phase_parameters, train_only
from toys import bart, generated, german_tokenizer, masking_tokenizer

MODEL = "{family: bart, d_model: 16, encoder_layers: 2, decoder_layers: 1, attention_heads: 2, ffn_dim: 16}"
SYSTEM = "{name: foreign, vocabulary: upstream, source_encoder: {layers: 1, first_step_fraction: 0.5}}"
SECTIONS = {
    "model": MODEL,
    "languages": "{source: de, target: en}",
    "pretrain": "{epochs: 1, batch_size: 500, precision: fp32}",
    "finetune": "{epochs: 1, max_steps: 6, batch_size: 500, precision: fp32, select: last}",
    "sides": "[encoder, decoder]",
    "upstream": "{corpus: upstream, objectives: [{kind: denoising}], vocabulary: {size: 70, byte_fallback: false}}",
    "downstream": "{corpus: downstream, shared: true, vocabulary: {size: 75, byte_fallback: false}}",
    "systems": f"[{SYSTEM}]",
}


def _bundle(seed: int = 1, layers: int = 2) -> Bundle:
    own = masking_tokenizer()
    return with_source_encoder(Bundle(bart(), own, own), german_tokenizer(), layers, seed)


def test_the_encoder_reads_the_states_of_the_source_encoder_as_embeddings() -> None:
    bundle, original = _bundle(), bart()
    ids = torch.tensor([[0, 5, 6, 7, 2], [0, 8, 2, 1, 1]])
    mask = (ids != 1).long()
    encoder = bundle.model.get_encoder()
    read = encoder.source(input_ids=ids, attention_mask=mask).last_hidden_state
    own = original.get_encoder()(inputs_embeds=read, attention_mask=mask).last_hidden_state
    states = encoder_states(bundle.model, input_ids=ids, attention_mask=mask)
    torch.testing.assert_close(states, own, rtol=0, atol=1e-6)
    alone = encoder_states(bundle.model, input_ids=ids[1:, :3], attention_mask=mask[1:, :3])
    torch.testing.assert_close(states[1:, :3], alone, rtol=0, atol=1e-5)
    assert not shares_table(bundle.model)
    sizes = family_of(bundle.model).vocabulary_sizes(bundle.model.config.to_dict())
    assert sizes == {"encoder": len(german_tokenizer()), "decoder": len(masking_tokenizer())}


@pytest.mark.parametrize("layers", [1, 3])
def test_parameters_are_counted_and_new_ones_follow_the_seed(layers: int) -> None:
    first, again, other = (_bundle(seed, layers).model for seed in (1, 1, 2))
    assert count_parameters(first.config.to_dict()).total == sum(each.numel() for each in first.parameters())
    named = [dict(model.named_parameters()) for model in (first, again, other)]
    old = dict(bart().named_parameters())
    for name, parameter in named[0].items():
        assert torch.equal(parameter, named[1][name])
        if ".source." not in name:
            assert torch.equal(parameter, old[name])
    assert any(not torch.equal(parameter, named[2][name]) for name, parameter in named[0].items())


def test_transformers_loads_it_where_remote_code_is_allowed(tmp_path: Path) -> None:
    bundle = _bundle()
    bundle.save(tmp_path)
    again = Bundle.load(tmp_path)
    theirs = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, trust_remote_code=True).eval()
    ids, read = torch.tensor([[0, 5, 6, 7, 2]]), torch.tensor([[2, 0, 9]])
    expected = bundle.model(ids, decoder_input_ids=read).logits
    assert torch.equal(again.model(ids, decoder_input_ids=read).logits, expected)
    assert torch.equal(theirs(ids, decoder_input_ids=read).logits, expected)
    assert again.encoder.fingerprint == german_tokenizer().fingerprint != again.decoder.fingerprint
    assert generated(theirs, ids, max_length=5)[0, :2].tolist() == [2, 0]
    with pytest.raises(ValueError, match="mean nothing to the decoder"):
        theirs(ids)


def test_the_first_step_trains_the_source_encoder_positions_and_the_first_input_projections() -> None:
    bundle = _bundle()
    train_only(bundle, first_phase_parameters(bundle, ()))
    trained = {name for name, each in bundle.model.named_parameters() if each.requires_grad}
    source = {name for name, _ in bundle.model.named_parameters() if name.startswith("model.encoder.source.")}
    first = {f"model.encoder.layers.0.self_attn.{name}_proj.{part}" for name in "qkv" for part in ("weight", "bias")}
    positions = {f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")}
    assert trained == source | first | positions


def test_an_experiment_trains_it_in_two_steps(tmp_path: Path) -> None:
    config = written(tmp_path, tiny(**SECTIONS))
    (system,) = Pipeline(load(config, Experiment, ()), config.parent).systems
    store = finish_steps([system.evaluate], config.parent)
    assert system.finetune.stage.first_phase is not None and not system.finetune.stage.first_phase.sides
    before = Bundle.load(store.path(system.finetune.inputs["model"]))
    after = Bundle.load(store.path(system.finetune))
    moved = {
        name
        for (name, old), new in zip(before.model.named_parameters(), after.model.parameters(), strict=True)
        if not torch.equal(old, new)
    }
    assert "model.decoder.layers.0.fc1.weight" in moved and "model.encoder.source.embed_tokens.weight" in moved
    assert store.find(system.finetune).summary["steps"] == 6  # type: ignore[union-attr]


def test_a_plan_knows_its_size(tmp_path: Path) -> None:
    config = written(tmp_path, tiny(**SECTIONS))
    (system,) = Pipeline(load(config, Experiment, ()), config.parent).systems
    made = system.finetune.inputs["model"]
    store = finish_steps([made.inputs["encoder"], made.inputs["model"].inputs["decoder"]], config.parent)
    planned = count_model_parameters(model_config(store, made)).total
    finish_steps([made], config.parent)
    assert planned == sum(each.numel() for each in Bundle.load(store.path(made)).model.parameters())


@pytest.mark.parametrize(
    ("sections", "complaint"),
    [
        ({"systems": "[{name: a, initialiser: mean, source_encoder: {layers: 1}}]"}, "with `vocabulary: upstream`"),
        (
            {"systems": "[{name: a, vocabulary: upstream, train: body, source_encoder: {}}]"},
            "be combined with train",
        ),
        ({"model": MODEL.replace("bart", "mbart")}, "needs model.family bart, not mbart"),
        ({"finetune": SECTIONS["finetune"].replace("{", "{train: body, ", 1)}, "finetune.train: all"),
    ],
)
def test_what_does_not_go_together_is_refused(sections: dict[str, str], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=complaint):
        load(written(tmp_path, tiny(**{**SECTIONS, **sections})), Experiment, ())


def test_other_families_take_no_source_encoder() -> None:
    with pytest.raises(UserError, match="takes no source encoder"):
        FAMILIES["mbart"].with_source_encoder({}, 1, 1)
    with pytest.raises(UserError, match="cannot change its vocabularies"):
        FAMILIES["sourced_bart"].with_vocabularies({}, {})
