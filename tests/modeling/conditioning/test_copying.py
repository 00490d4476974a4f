"""Copying by a pointer and a gate, against the equation written out and against the models that do not copy."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from sourced import VOCABULARY, language_model, settings, trained_a_little
from subgraft.contrib.conditioning.conditional_model import ConditionalModel, conditioned
from subgraft.embeddings.transplanting.transplant import Method
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.conditioning.settings import ConditioningSettings
from subgraft.modeling.conditioning.variants.registry import VariantName
from subgraft.modeling.families import count_parameters
from subgraft.pipeline.compute.transfer import transfer_bundle
from subgraft.subwords.vocabulary.learn import learn
from subgraft.training.objectives.compute.conditioned import (
    SourcedBatch,
    SourcedLoss,
    SourcedStates,
    selection_loss,
    spans_in_target,
)
from subgraft.training.objectives.compute.embedding_view import IGNORED, ModelEmbeddings
from toys import german, german_tokenizer, gpt2

ENCODER = {"layers": 1, "attention_heads": 2, "dropout": 0.0}
NAMES: tuple[VariantName, ...] = tuple(name for name in get_args(VariantName) if name != "prepend")
FAMILIES = [("gpt2", name) for name in NAMES] + [("llama", "pseudo-self")]


def _settings(variant: str = "pseudo-self", kind: str | None = "pointer-generator") -> ConditioningSettings:
    result = settings(variant, kind="own-text", encoder=ENCODER).model_dump()
    copying = {"kind": kind, **({"threshold": 0.5} if kind == "bottom-up" else {})}
    return ConditioningSettings.model_validate(result | ({"copying": copying} if kind else {}))


def _model(family: str = "gpt2", variant: str = "pseudo-self", kind: str | None = "pointer-generator") -> Any:
    """In float64, and trained a little. Copying or not, the rest is the same."""
    return trained_a_little(conditioned(language_model(family), _settings(variant, kind), seed=1).double())


def _batch() -> SourcedBatch:
    """Three lines of six tokens and less, whose sources, of five tokens and less, have some of them, one twice."""
    source = torch.tensor([[7, 9, 7, 12, 1], [4, 30, 1, 0, 0], [5, 6, 8, 1, 0]])
    ids = torch.tensor([[0, 7, 9, 20, 12, 1], [0, 30, 31, 1, 2, 2], [0, 40, 41, 42, 1, 2]])
    labels = torch.cat([ids[:, 1:], torch.full((3, 1), IGNORED)], 1).masked_fill(ids.roll(-1, 1) == 2, IGNORED)
    mask = (torch.arange(5) < torch.tensor([5, 3, 4])[:, None]).long()
    return SourcedBatch(ids, torch.ones_like(ids), labels, source, mask)


def _log_probabilities(model: Any, batch: SourcedBatch) -> Tensor:
    """What the model says in generation [B, T, V]."""
    with torch.no_grad():
        log_probabilities: Tensor = model(
            input_ids=batch.source, attention_mask=batch.source_mask, decoder_input_ids=batch.input_ids
        ).logits
    return log_probabilities


def _gate(model: Any, bias: float) -> Any:
    with torch.no_grad():
        model.copying.gate.bias.fill_(bias)
    return model


@pytest.mark.parametrize(("family", "variant"), FAMILIES)
def test_the_mixture_is_a_distribution_and_the_loss_its_likelihood(family: str, variant: str) -> None:
    model, batch = _model(family, variant), _batch()
    log_probabilities = _log_probabilities(model, batch)
    assert (log_probabilities.exp().sum(-1) - 1).abs().max() < 1e-12 and torch.allclose(
        log_probabilities, log_probabilities.log_softmax(-1), atol=1e-12
    )
    counted = batch.labels != IGNORED
    expected = -log_probabilities[counted].gather(1, batch.labels[counted][:, None])[:, 0]
    assert torch.allclose(SourcedStates(model, batch, ModelEmbeddings(model)).nats(), expected, atol=1e-10)
    assert SourcedLoss(model)(batch)["loss"].item() == pytest.approx(expected.sum().item(), abs=1e-9)


def test_it_is_the_equation() -> None:
    model, batch = _model(), _batch()
    with torch.no_grad():
        memory = model.read(batch.source, batch.source_mask)
        states = model.states(memory, input_ids=batch.input_ids)
        logits = model.language_model.get_output_embeddings()(states)
    query, gate, log_probabilities = model.copying.query, model.copying.gate, _log_probabilities(model, batch).exp()
    for place, row in enumerate(batch.source):
        length = int(batch.source_mask[place].sum())
        for step, state in enumerate(states[place]):
            asked = query.weight @ state + query.bias
            scores = torch.stack([asked @ memory.states[place, i] for i in range(length)]) / state.shape[0] ** 0.5
            attention = scores.exp() / scores.exp().sum()
            share = 1 / (1 + torch.exp(-(gate.weight[0] @ state + gate.bias[0])))
            expected = share * logits[place, step].exp() / logits[place, step].exp().sum()
            for i in range(length):
                expected[row[i]] += (1 - share) * attention[i]
            assert 0.001 < share < 0.999 and torch.allclose(log_probabilities[place, step], expected, atol=1e-12)


@pytest.mark.parametrize(("family", "variant"), FAMILIES)
def test_an_open_gate_and_an_empty_source_are_the_model_without_copying(family: str, variant: str) -> None:
    batch, plain = _batch(), _model(family, variant, kind=None)
    expected = _log_probabilities(plain, batch).log_softmax(-1)
    assert torch.allclose(_log_probabilities(_gate(_model(family, variant), 1e9), batch), expected, atol=1e-10)
    assert not torch.allclose(_log_probabilities(_model(family, variant), batch), expected, atol=1e-3)
    empty = SourcedBatch(**vars(batch) | {"source_mask": torch.zeros_like(batch.source_mask)})
    copying = _model(family, variant)
    assert torch.allclose(
        _log_probabilities(copying, empty), _log_probabilities(plain, empty).log_softmax(-1), atol=1e-10
    )


def test_tokens_that_the_source_lacks_are_not_copied() -> None:
    batch = _batch()
    log_probabilities = _log_probabilities(_gate(_model(), -1e9), batch).exp()
    for place, row in enumerate(batch.source):
        there = torch.zeros(VOCABULARY, dtype=torch.bool)
        there[row[batch.source_mask[place] == 1]] = True
        assert (log_probabilities[place][:, ~there] == 0).all() and (log_probabilities[place][:, there] > 0).all()


@pytest.mark.parametrize(("family", "variant"), FAMILIES)
def test_no_token_is_seen_before_its_place(family: str, variant: str) -> None:
    model, batch = _model(family, variant), _batch()
    changed = batch.input_ids.clone()
    changed[:, 3] = (changed[:, 3] + 5) % VOCABULARY
    before, after = (
        _log_probabilities(model, batch),
        _log_probabilities(model, SourcedBatch(**vars(batch) | {"input_ids": changed})),
    )
    assert (before[:, :3] - after[:, :3]).abs().max() < 1e-12
    assert ((before[:, 3:] - after[:, 3:]).abs().amax(2) > 1e-6).all()


@pytest.mark.parametrize("variant", NAMES)
@pytest.mark.parametrize("beams", [1, 3])
def test_a_cache_and_beams_are_a_manual_loop(variant: str, beams: int) -> None:
    model, batch = _model("gpt2", variant).float(), _batch()
    inputs = {"input_ids": batch.source, "attention_mask": batch.source_mask, "max_length": 10, "num_beams": beams}
    inputs |= {"do_sample": False, "return_dict_in_generate": True, "output_scores": True}
    selected, fresh = model.generate(**inputs), model.generate(**inputs, use_cache=False)
    assert torch.equal(selected.sequences, fresh.sequences)
    ids = selected.sequences
    log_probabilities = _log_probabilities(
        model, SourcedBatch(ids, torch.ones_like(ids), ids, batch.source, batch.source_mask)
    )
    written = (ids[:, 1:] != 2).cumprod(1)
    nats = (log_probabilities[:, :-1].gather(2, ids[:, 1:, None])[..., 0] * written).sum(1)
    if beams > 1:
        assert torch.allclose(selected.sequences_scores, nats / written.sum(1), atol=1e-4)
    else:
        best = log_probabilities[:, :-1].argmax(-1)
        assert ((best == ids[:, 1:]) | (written == 0)).all()


def test_gradients_are_numbers_and_reach_everything() -> None:
    model, batch = _model().train(), _batch()
    SourcedLoss(model)(batch)["loss"].backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all() and parameter.grad.any(), name


def test_gradients_of_the_loss_are_those_of_the_mixture() -> None:
    gradients = []
    for by_loss in (True, False):
        model, batch = _model().train(), _batch()
        if by_loss:
            SourcedLoss(model)(batch)["loss"].backward()
        else:
            log_probabilities = model(
                input_ids=batch.source, attention_mask=batch.source_mask, decoder_input_ids=batch.input_ids
            )
            torch.nn.functional.nll_loss(
                log_probabilities.logits.flatten(0, 1), batch.labels.flatten(), ignore_index=IGNORED, reduction="sum"
            ).backward()
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    for name, gradient in gradients[0].items():
        assert torch.allclose(gradient, gradients[1][name], atol=1e-9), name


def test_saved_and_loaded_it_says_the_same_and_is_as_large_as_foreseen(tmp_path: Path) -> None:
    model, batch = _model().float(), _batch()
    model.save_pretrained(tmp_path)
    loaded = ConditionalModel.from_pretrained(tmp_path).eval()
    assert torch.equal(_log_probabilities(loaded, batch), _log_probabilities(model, batch))
    assert count_parameters(model.config.to_dict()).total == model.num_parameters()
    new = model.num_parameters() - _model(kind=None).num_parameters()
    assert new == 16 * 16 + 16 + 16 + 1
    selecting = _model(kind="bottom-up")
    assert count_parameters(selecting.config.to_dict()).total == selecting.num_parameters()
    assert selecting.num_parameters() == model.num_parameters() + 17


def test_settings_that_leave_nothing_to_copy_are_refused() -> None:
    for source in ({"kind": "class", "classes": ["a"]}, {"kind": "text", "vocabulary": 9}):
        with pytest.raises(ValidationError, match="only tokens of an encoded text in the language model's own"):
            ConditioningSettings.model_validate({"variant": "pseudo-self", "source": source, "copying": {}})


def test_what_a_selector_leaves_out_is_not_copied_and_the_rest_shares_the_attention() -> None:
    model, batch = _model(kind="bottom-up"), _batch()
    with torch.no_grad():
        memory = model.read(batch.source, batch.source_mask)
        of_token = memory.states @ model.copying.selector.weight[0]
        model.copying.selector.bias.fill_(-of_token[0, :5].median())  # two of five tokens are above
        selection = (of_token + model.copying.selector.bias).sigmoid()
        whole = model.target_states(memory, input_ids=batch.input_ids).copied
        cut = model.target_states(memory, selected=True, input_ids=batch.input_ids).copied
    assert torch.equal(cut.selection.sigmoid(), selection)
    retained = (selection > 0.5) & (batch.source_mask == 1)
    assert retained[0].sum() == 2
    expected = whole.attention.exp() * retained[:, None]
    expected = expected / expected.sum(-1, keepdim=True).clamp_min(1e-300)
    some = retained.any(1)
    assert torch.allclose(cut.attention.exp()[some], expected[some], atol=1e-12)
    assert torch.equal(cut.generates[some], whole.generates[some]) and (cut.generates[~some] == 0).all()
    log_probabilities = _log_probabilities(_gate(model, -1e9), batch)[0].exp()
    there = torch.zeros(VOCABULARY, dtype=torch.bool)
    there[batch.source[0][retained[0]]] = True
    assert (log_probabilities[:, ~there] == 0).all() and (log_probabilities.sum(-1) - 1).abs().max() < 1e-12


def test_a_selector_changes_neither_the_likelihood_nor_what_else_is_learnt() -> None:
    models, batch = [_model(kind=kind).train() for kind in ("pointer-generator", "bottom-up")], _batch()
    losses = [SourcedLoss(model).train()(batch) for model in models]
    assert set(losses[0]) == {"loss"} and torch.equal(losses[0]["loss"], losses[1]["loss"])
    losses[1]["selection"].backward()
    reached = {name for name, parameter in models[1].named_parameters() if parameter.grad is not None}
    assert reached == {"copying.selector.weight", "copying.selector.bias"}
    assert set(SourcedLoss(models[1]).eval()(batch)) == {"loss"}
    assert batch.counts == {"loss": 5 + 3 + 4, "selection": 12}


@pytest.mark.parametrize(
    ("source", "target", "copied"),
    [
        ([1, 2, 3, 4], [2, 3], [0, 1, 1, 0]),
        ([2, 3, 9, 2, 3], [2, 3], [1, 1, 0, 0, 0]),  # what came before is not copied again
        ([2, 9, 2, 3], [2, 3], [1, 0, 1, 1]),  # a longer run is another one
        ([5, 6, 7], [6, 9, 5, 6], [1, 1, 0]),
        ([5, 6, 7], [7, 6, 5], [1, 1, 1]),
        ([5, 5], [5], [1, 0]),
        ([5], [], [0]),
        ([], [5], []),
    ],
)
def test_what_a_target_has_of_its_source_is_in_longest_runs(
    source: list[int], target: list[int], copied: list[int]
) -> None:
    assert [int(each) for each in spans_in_target(source, target)] == copied


def test_a_selector_learns_by_the_tokens_that_are_there() -> None:
    batch, odds = _batch(), torch.randn(3, 5, dtype=torch.float64)
    expected = 0.0
    for place, row in enumerate(batch.source.tolist()):
        length = int(batch.source_mask[place].sum())
        target = [token for token in batch.labels[place].tolist() if token != IGNORED]
        for log_odds, copied in zip(odds[place].tolist(), spans_in_target(row[:length], target), strict=False):
            expected += np.log1p(np.exp(-log_odds if copied else log_odds))
    result = selection_loss(odds, batch.source, batch.source_mask, batch.labels)
    assert result.item() == pytest.approx(expected, abs=1e-9)


def _named(count: int, words: range, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Sources of five common words, with a rare one behind the word 3 somewhere; and lines of the rare one alone."""
    sources = rng.integers(4, 10, (count, 7))
    rare, places = rng.choice(words, count), rng.integers(0, 5, count)
    sources[np.arange(count), places], sources[np.arange(count), places + 1] = 3, rare
    lines = np.stack([np.zeros(count, dtype=np.int64), rare, np.ones(count, dtype=np.int64)], 1)
    return torch.from_numpy(sources), torch.from_numpy(lines)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pointer-generator", "bottom-up", None])
def test_rare_words_that_were_never_written_are_copied(kind: str | None) -> None:
    model: Any = conditioned(language_model(), _settings("pseudo-self", kind), seed=1)
    rng, loss = np.random.default_rng(1), SourcedLoss(model).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(150):
        source, ids = _named(64, range(10, 40), rng)
        labels = torch.cat([ids[:, 1:], torch.full((len(ids), 1), IGNORED)], 1)
        batch = SourcedBatch(ids, torch.ones_like(ids), labels, source, torch.ones_like(source))
        optimizer.zero_grad()
        sum(value / batch.counts[name] for name, value in loss(batch).items()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()
    source, ids = _named(100, range(40, 50), rng)
    inputs = {"input_ids": source, "attention_mask": torch.ones_like(source)}
    written = model.generate(**inputs, max_length=3, num_beams=2, do_sample=False)
    right = (written[:, 1] == ids[:, 1]).float().mean().item()
    assert right > 0.8 if kind else right < 0.1


def test_another_vocabulary_leaves_what_copies_as_it_is() -> None:
    old, own = german_tokenizer(), learn(german(60, 5), kind="unigram", size=70)
    made = conditioned(gpt2(), _settings(), seed=1)
    before = Bundle(copy.deepcopy(made), old, old)
    after = transfer_bundle(Bundle(made, old, old), {"decoder": own}, Method("mean")).bundle
    for part in ("copying", "source", "variant"):
        selected, there = (dict(getattr(each.model, part).named_parameters()) for each in (before, after))
        assert there and all(torch.equal(there[name], selected[name]) for name in selected)
    seen = [entry for entry in own.ids if entry in old.ids][:6]
    copied = []
    for bundle in (before, after):
        ids = torch.tensor([[bundle.decoder.ids[entry] for entry in seen]])
        model: Any = bundle.model
        with torch.no_grad():
            copied.append(model.target_states(model.read(ids, torch.ones_like(ids)), input_ids=ids).copied)
        assert torch.equal(copied[-1].tokens, ids)
    assert not torch.equal(copied[0].tokens, copied[1].tokens) and copied[0].attention.std() > 0
    assert torch.allclose(copied[0].attention, copied[1].attention, atol=1e-6)
    assert torch.allclose(copied[0].generates, copied[1].generates, atol=1e-6)
