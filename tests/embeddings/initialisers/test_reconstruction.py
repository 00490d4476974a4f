from __future__ import annotations

import random
from itertools import product

import torch
from torch import nn

from subgraft.embeddings.initialisers.new_rows import InitialiserInputs
from subgraft.embeddings.initialisers.reconstruction import (
    character_ngrams,
    fit_ngrams,
    incidence,
    reconstruct,
    shared_ngrams,
)
from subgraft.modeling.sides import Side
from subgraft.subwords.vocabulary.entry import Entry
from toys import multilingual_tokenizer
from vectors import request, unseen, untied_decoder
from vocabularies import unigram

SYLLABLES = ["ba", "ko", "ti", "mu", "re", "so", "fa", "ni"]


def test_ngrams_tell_where_a_word_begins() -> None:
    initial, inside = (set(character_ngrams(Entry("ab", word_initial))) for word_initial in (True, False))
    assert initial & inside == {"a", "b", "ab", "b\ue002", "ab\ue002"}
    assert initial - inside == {"\ue000a", "\ue000ab", "\ue000ab\ue002"}
    assert inside - initial == {"\ue001a", "\ue001ab", "\ue001ab\ue002"}
    assert max(map(len, character_ngrams(Entry("a" * 20, True)))) == 6


def test_a_product_with_the_incidence_is_the_mean_over_the_bag_repeats_included() -> None:
    bags = [["a", "b", "a"], ["b", "unknown"], ["unknown"]]
    vectors = torch.tensor([[3.0, 0.0], [0.0, 6.0]])
    means = incidence(bags, {"a": 0, "b": 1}) @ vectors
    assert torch.allclose(means, torch.tensor([[2.0, 2.0], [0.0, 6.0], [0.0, 0.0]]))
    assert shared_ngrams(bags) == {"b": 0, "unknown": 1}


def test_many_steps_reach_the_least_squares() -> None:
    """Against the normal equations, solved densely; nine tokens are too few to hold one out."""
    bags = [character_ngrams(Entry(word, True)) for word in ("ab", "ba", "aba", "bab", "abc", "cab", "bca", "c", "cc")]
    shares = incidence(bags, shared_ngrams(bags))
    targets = torch.randn(9, 3, generator=torch.Generator().manual_seed(1))
    dense = shares.to_dense().double()
    best = dense @ torch.linalg.pinv(dense) @ targets.double()
    assert torch.allclose((shares @ fit_ngrams(shares, targets, 60)).double(), best, atol=1e-3)


def composed(words: list[str]) -> torch.Tensor:
    """Rows that are sums of their syllables' vectors, and a shift."""
    vectors = dict(zip(SYLLABLES, torch.randn(8, 12, generator=torch.Generator().manual_seed(4)), strict=True))
    return torch.stack([sum(vectors[w[i : i + 2]] for i in range(0, len(w), 2)) for w in words]) + 5.0


def test_tokens_of_known_parts_are_rebuilt_far_better_than_by_the_mean_row() -> None:
    """Words of two and three syllables: half of them make the table, the other half is asked for."""
    words = ["".join(parts) for size in (2, 3) for parts in product(SYLLABLES, repeat=size)]
    random.Random(1).shuffle(words)
    upstream, asked = words[::2], words[1::2]
    source = unigram([f"▁{word}" for word in upstream])
    table = nn.Embedding(len(source), 12)
    with torch.no_grad():
        table.weight.fill_(5.0)
        table.weight[[source.ids[Entry(word, True)] for word in upstream]] = composed(upstream)
    made = Side("decoder", table, None, None, True, None)
    rows = reconstruct(InitialiserInputs(made, source, [Entry(word, True) for word in asked], 0, 1.0, 0, 5, None))
    error = (rows.input - composed(asked)).square().mean()
    by_mean = (table.weight.mean(0) - composed(asked)).square().mean()
    assert error < 0.2 * by_mean
    assert rows.output is None and rows.bias is None
    assert rows.fallbacks == {"mean": 0}


def test_all_tables_are_rebuilt_and_unknown_characters_counted() -> None:
    upstream, entries = untied_decoder(), [*unseen(), Entry("☃", True)]
    one, two = (reconstruct(request(upstream, entries, others=2)) for _ in range(2))
    assert upstream.output is not None and upstream.bias is not None
    assert one.output is not None and one.bias is not None and two.output is not None
    assert torch.equal(one.input, two.input) and torch.equal(one.output, two.output)
    assert one.fallbacks == {"mean": 1}
    ordinary = [i for i, entry in enumerate(multilingual_tokenizer().entries) if entry is not None]
    assert torch.allclose(one.input[-3:], upstream.input.weight[ordinary].mean(0).expand(3, -1), atol=1e-5)
    assert torch.allclose(one.output[-3:], upstream.output.weight[ordinary].mean(0).expand(3, -1), atol=1e-5)
    assert torch.allclose(one.bias[-3:], upstream.bias.flatten()[ordinary].mean().expand(3), atol=1e-5)
    assert one.input.shape == (len(entries) + 2, 16)
