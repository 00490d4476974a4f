"""VocADT: its loss against a transplanted model, what it trains, and what that does for other sentences."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

from new_vocabularies import LANGUAGES, TEXTS, new_vocabulary, upstream
from subgraft.config.settings_base import SideName
from subgraft.config.training import TrainingSettings
from subgraft.embeddings.learned_rows.vocadt import VocadtLoss
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families.encoder_only import BERT2BERT
from subgraft.modeling.sides import Side
from subgraft.modeling.sides import side as side_of
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.engine import PlainEngine
from subgraft.training.loop import Trainer
from subgraft.training.objectives.compute.seq2seq import Seq2SeqData, token_loss
from subgraft.training.objectives.compute.translation import Translation
from toys import bert2bert, cased_tokenizer

BOTH: tuple[SideName, ...] = ("encoder", "decoder")
UNTIED = "untied"
FAMILIES = ("marian", "mbart", BERT2BERT, UNTIED)
CASES = [(family, sides) for family in FAMILIES for sides in (("decoder",), BOTH)]
Vocabularies = dict[SideName, Tokenizer]


def model_of(family: str) -> Bundle:
    if family == UNTIED:
        return Bundle(bert2bert(tied=False), cased_tokenizer(), cased_tokenizer())
    return upstream(family)


def vocabularies(family: str, sides: tuple[SideName, ...]) -> Vocabularies:
    return {side: new_vocabulary(BERT2BERT if family == UNTIED else family, side) for side in sides}


def all_tokens(bundle: Bundle) -> dict[SideName, range]:
    """Ids of all rows of each side."""
    return {side: range(len(side_of(bundle.model, side).input.weight)) for side in BOTH}


def text(bundle: Bundle, target: Mapping[SideName, Tokenizer], first: int, last: int) -> Seq2SeqData:
    changed = Bundle(bundle.model, target.get("encoder", bundle.encoder), target.get("decoder", bundle.decoder))
    form = changed.sequence_format(LANGUAGES)
    return Seq2SeqData(Translation(TEXTS[first:last], changed.encoder, changed.decoder, form, 40), *changed.padding)


def transferred(bundle: Bundle, target: Vocabularies) -> Bundle:
    model = transplant(bundle.model, bundle.tokenizers, target, Method("mean")).model
    return Bundle(model, target.get("encoder", bundle.encoder), target.get("decoder", bundle.decoder))


def tables(side: Side) -> dict[str, torch.Tensor]:
    by_part = {"input": side.input.weight}
    if side.output is not None and not side.tied:
        by_part["output"] = side.output.weight
    if side.bias is not None:
        by_part["bias"] = side.bias.flatten()
    return by_part


@pytest.mark.parametrize(("family", "sides"), CASES)
def test_without_a_step_it_is_the_model_that_a_transfer_by_the_mean_makes(
    family: str, sides: tuple[SideName, ...]
) -> None:
    target = vocabularies(family, sides)
    bundle = model_of(family)
    module = VocadtLoss(bundle, target, all_tokens(bundle)).eval()
    batch = text(bundle, target, 0, 20).batch(np.arange(12), 0)
    loss = module(batch)["loss"]
    means = transferred(model_of(family), target)
    expected = token_loss(means.model.eval(), text(means, {}, 0, 20).batch(np.arange(12), 0))
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-4)
    for name in sides:
        adapter = module.adapter(name)
        for part, rows in adapter.rows().items():
            assert torch.equal(rows, tables(side_of(means.model, name))[part][adapter.tokens].float())


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_trained_are_combinations_of_all_old_rows_and_nothing_else(family: str) -> None:
    """The same weights for a table and its bias; an untied projection has weights of its own."""
    target, bundle = vocabularies(family, ("decoder",)), model_of(family)
    module = VocadtLoss(bundle, target, all_tokens(bundle))
    parameters = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
    own = ("input", "output") if family == UNTIED else ("input",)
    assert parameters == {f"adapters.decoder.weights.{part}" for part in own}
    adapter, old = module.adapter("decoder"), tables(side_of(bundle.model, "decoder"))
    begun = {part: rows.clone() for part, rows in adapter.rows().items()}
    randomness = torch.Generator().manual_seed(2)
    for weights in adapter.weights.values():
        weights.data.normal_(generator=randomness)
    for part, rows in adapter.rows().items():
        weights = adapter.weights[part if part in own else own[-1]].detach()
        assert weights.shape == (len(adapter.tokens), len(old[part]))
        torch.testing.assert_close(rows, begun[part] + weights @ old[part].detach(), rtol=1e-4, atol=1e-4)
    whole, seen = adapter(), torch.ones(len(target["decoder"]), dtype=torch.bool).index_fill(0, adapter.tokens, False)
    copied = tables(side_of(transferred(model_of(family), target).model, "decoder"))
    assert all(torch.equal(whole[part][seen], table[seen]) for part, table in copied.items())


def test_only_the_named_old_tokens_are_mixed() -> None:
    target, bundle = vocabularies("marian", ("decoder",)), model_of("marian")
    old_tokens: dict[SideName, set[int]] = {"decoder": {11, 30, 17}}
    adapter = VocadtLoss(bundle, target, old_tokens).adapter("decoder")
    begun = adapter.rows()["input"].clone()
    assert adapter.weights["input"].shape == (len(adapter.tokens), 3)
    adapter.weights["input"].data[0] = torch.tensor([1.0, 10.0, 100.0])
    old = side_of(bundle.model, "decoder").input.weight.detach()
    expected = begun[0] + old[11] + 10 * old[17] + 100 * old[30]
    torch.testing.assert_close(adapter.rows()["input"][0], expected, rtol=1e-4, atol=1e-4)
    assert torch.equal(adapter.rows()["input"][1:], begun[1:])


def test_sides_that_share_a_table_and_a_vocabulary_have_one_adapter() -> None:
    bundle = upstream("mbart")
    shared = new_vocabulary("mbart", "decoder")
    module = VocadtLoss(bundle, {"encoder": shared, "decoder": shared}, {"encoder": {5, 9}, "decoder": {7, 9}})
    assert module.adapter("encoder") is module.adapter("decoder") and len(list(module.adapters)) == 1
    assert module.adapter("decoder").weights["input"].shape[1] == 3, "old tokens of both sides"
    apart = VocadtLoss(bundle, vocabularies("mbart", BOTH), all_tokens(bundle))
    assert apart.adapter("encoder") is not apart.adapter("decoder")


@pytest.mark.parametrize(("family", "sides"), CASES)
def test_training_makes_other_sentences_likelier_and_leaves_the_model_alone(
    family: str, sides: tuple[SideName, ...], tmp_path: Path
) -> None:
    target, bundle = vocabularies(family, sides), model_of(family)
    before = {name: tensor.clone() for name, tensor in bundle.model.state_dict().items()}
    module = VocadtLoss(bundle, target, all_tokens(bundle))
    settings = TrainingSettings(
        max_steps=20, batch_size=600, max_length=40, learning_rate=0.01, warmup_steps=5, label_smoothing=0.0
    )
    held_out = text(bundle, target, 200, 240).batch(np.arange(40), 0)
    with torch.no_grad():
        first = float(module(held_out)["loss"])
    engine, data = PlainEngine(module, settings, torch.device("cpu")), text(bundle, target, 0, 200)
    Trainer(module, {"loss": 1.0}, data, settings, engine, Checkpoints(tmp_path), seed=1).run()
    with torch.no_grad():
        assert float(module(held_out)["loss"]) < first
    assert all(torch.equal(tensor, before[name]) for name, tensor in bundle.model.state_dict().items())
    for name in sides:
        assert all(weights.any() for weights in module.adapter(name).weights.values())
