"""Pseudo-domains of toy sentences: what their vocabularies are, and the batches that networks are trained on."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from subgraft.config.corpora import Languages
from subgraft.config.settings_base import SideName
from subgraft.embeddings.generators.domain_simulation import DomainSimulator, PseudoDomains
from subgraft.embeddings.generators.generator_loss import GeneratorLoss
from subgraft.embeddings.generators.network import Network, NetworkShape
from subgraft.embeddings.methods.network import NetworkSettings
from subgraft.modeling.sides import decoder_states_from_memory, encoder_states, input_scale, side
from subgraft.subwords.vocabulary.alignment import NEW
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.seq2seq import Seq2SeqBatch, Seq2SeqView
from subgraft.training.objectives.compute.translation import Translation
from toys import SHAPE, build_marian, english, english_tokenizer, german, german_tokenizer, sequence_format

SETTINGS = NetworkSettings(width=8, layers=1, domains=3, sentences=50, vocabulary_size=(1.0, 2.0), negatives=20)
COUNT, LONGEST = 80, SHAPE["max_positions"]


def _view(name: SideName = "decoder") -> Seq2SeqView:
    source, target = english_tokenizer(), german_tokenizer()
    form = sequence_format({"model_type": "marian"}, source, target, Languages(source="en", target="de"))
    examples = Translation(
        list(zip(english(COUNT), german(COUNT), strict=True)), source, target, form, max_length=LONGEST
    )
    return Seq2SeqView(examples, name, (source.special["pad"], target.special["pad"]))


def _domains(settings: NetworkSettings = SETTINGS, seed: int = 1) -> PseudoDomains:
    return PseudoDomains.sample(_view(), german_tokenizer(), settings, seed, LONGEST)


def test_new_tokens_are_those_that_the_reduced_vocabulary_lacks() -> None:
    for part in _domains().parts:
        domain, upstream = part.domain, german_tokenizer()
        assert len(domain.upstream) == len(upstream)
        assert set(domain.upstream.ids) < set(upstream.ids)
        entries = [domain.vocabulary.entries[token] for token in domain.new]
        assert entries
        assert not any(entry in domain.upstream.ids for entry in entries)
        assert len(domain.pieces) == len(domain.new)
        present = set(domain.origins[domain.origins != NEW].tolist())
        assert present.isdisjoint(domain.absent.tolist())
        assert upstream.special["eos"] not in domain.absent.tolist()


def test_domains_are_a_function_of_the_seed_and_differ_from_one_another() -> None:
    fingerprints = [[part.domain.vocabulary.fingerprint for part in _domains(seed=seed).parts] for seed in (1, 1, 2)]
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]
    assert len(set(fingerprints[0])) == 3


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_sentence_in_the_domains_vocabulary_is_the_same_text(epoch: int) -> None:
    upstream = german_tokenizer()
    part = _domains().parts[1]
    domain, view = part.domain, _view()
    for index in part._examples[:20]:
        tokens = view.body(view.original(int(index), epoch)).tokens
        result = part.resegment(tokens, np.random.default_rng(0))
        own = {token.entry: at for at, token in enumerate(result.new)}
        ids = {origin: token for token, origin in enumerate(domain.origins.tolist()) if origin != NEW}
        back = [
            ids[t] if t < len(upstream) else domain.vocabulary.ids[result.new[t - len(upstream)].entry]
            for t in result.tokens
        ]
        assert len(own) == len(result.new)
        assert domain.vocabulary.decode(back) == upstream.decode(tokens)
        # Spans cover both segmentations, in order.
        assert [s.original[0] for s in result.spans] == [0, *(s.original[1] for s in result.spans[:-1])]
        assert [s.resegmented[0] for s in result.spans] == [0, *(s.resegmented[1] for s in result.spans[:-1])]
        assert result.spans[-1].original[1] == len(tokens)
        assert result.spans[-1].resegmented[1] == len(result.tokens)


def test_a_batch_has_its_own_new_tokens_first_and_others_that_stand_for_the_rest() -> None:
    few = SETTINGS.model_copy(update={"negatives": 5})
    part: DomainSimulator = _domains(few).parts[0]
    batch, size = part.batch(np.arange(4), 0), len(german_tokenizer())
    labels = batch.predicted.labels
    own = torch.unique(labels[(labels != IGNORED) & (labels >= size)]) - size
    assert own.tolist() == list(range(len(own)))
    assert len(batch.new) == len(own) + 5 == len(batch.competing_tokens.weights)
    assert batch.competing_tokens.weights[: len(own)].eq(0).all()
    rest = len(part.domain.new) - len(own)
    assert batch.competing_tokens.weights[len(own) :].numpy() == pytest.approx(np.log(rest / 5))
    assert not set(labels[labels != IGNORED].tolist()) & set(batch.competing_tokens.absent.tolist())


def test_all_of_a_domain_as_negatives_is_the_softmax_over_its_whole_vocabulary() -> None:
    """The loss against one that builds the domain's table and takes plain cross entropy over it."""
    part = _domains(SETTINGS.model_copy(update={"negatives": 10_000})).parts[0]
    model = build_marian(english_tokenizer(), german_tokenizer(), seed=1, **SHAPE)
    of = side(model, "decoder")
    network = Network(NetworkShape.of(of, 8, 1))
    network.begin(of, torch.from_numpy(german_tokenizer().ordinary_ids), seed=1)
    for head in network.heads.values():
        assert isinstance(head, torch.nn.Linear)
        torch.nn.init.normal_(head.weight, std=0.3, generator=torch.Generator().manual_seed(1))
    batch = part.batch(np.arange(6), 0)
    loss = GeneratorLoss(model, network, _view(), 0.5, 0.0, "input").eval()
    losses = loss(batch)

    rows, size = network.rows(of, batch.new), len(german_tokenizer())
    table = torch.cat([of.input.weight, rows.of("input", of.input.weight)])
    assert of.bias is not None
    bias = torch.cat([of.bias.reshape(-1), rows.of("bias", of.bias.reshape(-1, 1)).reshape(-1)])
    bias[batch.competing_tokens.absent] = -torch.inf
    read = batch.predicted
    assert isinstance(read, Seq2SeqBatch)
    memory = encoder_states(model, input_ids=read.input_ids, attention_mask=read.attention_mask)
    embedded = table[read.decoder_input_ids] * input_scale(model, of)
    top = decoder_states_from_memory(model, memory, read.attention_mask, inputs_embeds=embedded)
    logits = top @ table.T + bias
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), read.labels.flatten(), reduction="sum")
    torch.testing.assert_close(losses["prediction"], expected, rtol=1e-4, atol=1e-3)
    assert len(batch.new) == len(part.domain.new) and size == len(of.input.weight)

    (losses["prediction"] + losses["distillation"]).backward()
    assert all(parameter.grad is not None for name, parameter in network.named_parameters() if "spread" not in name)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_domains_are_the_parts_of_mixed_data() -> None:
    domains = _domains()
    assert len(domains.lengths) == 3 * 50
    assert domains.lengths[50:100].tolist() == domains.parts[1].lengths.tolist()
    one, two = domains.batch(np.array([50, 51]), 0), domains.parts[1].batch(np.array([0, 1]), 0)
    assert torch.equal(one.predicted.labels, two.predicted.labels)
