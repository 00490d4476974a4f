from __future__ import annotations

import torch

from subgraft.embeddings.generators.resegment import SimulatedToken
from subgraft.embeddings.generators.simulation import SimilarCache
from subgraft.subwords.similar_tokens.finder import Relation, SimilarTokenFinder
from subgraft.subwords.vocabulary.entry import Entry
from vocabularies import unigram

SOURCE = unigram(["▁ab", "a", "b", "ab", "c", "abc", "xabcx", "xabcy", "abcz"])


def _named(cache: SimilarCache, *tokens: SimulatedToken) -> list[list[tuple[str, Relation]]]:
    similar = cache(tokens)
    pieces = [SOURCE.pieces[i] for i in similar.token_ids.tolist()]
    pairs = list(zip(pieces, map(Relation, similar.relations.tolist()), strict=True))
    assert similar.rows.tolist() == [i for i, n in enumerate(similar.counts.tolist()) for _ in range(n)]
    return [pairs[similar.offsets[i] : similar.offsets[i + 1]] for i in range(len(similar))]


def test_plain_tokens_have_what_the_finder_finds_however_often_they_are_asked_for() -> None:
    cache, entries = SimilarCache(SOURCE, 4), [Entry("ba", False), Entry("bc", False), Entry("ba", False)]
    expected = SimilarTokenFinder(SOURCE, 4).find(entries)
    for _ in range(2):
        similar = cache([SimulatedToken(entry) for entry in entries])
        assert similar.token_ids.tolist() == expected.token_ids.tolist()
        assert similar.relations.tolist() == expected.relations.tolist()
        assert similar.offsets.tolist() == expected.offsets.tolist()
    assert torch.equal(similar.ordinary, torch.from_numpy(SOURCE.ordinary_ids))
    assert len(cache([])) == 0


def test_a_token_of_the_vocabulary_has_its_parts_and_as_many_hyperwords_as_it_is_said_to() -> None:
    two, three = (SimulatedToken(Entry("abc", False), n, 1) for n in (2, 3))
    none, plain = SimulatedToken(Entry("abc", False), 2, 0), SimulatedToken(Entry("abc", False))
    similar = _named(SimilarCache(SOURCE, 10), two, three, none, plain)
    parts = [("ab", Relation.PREFIX_SUBWORD), ("c", Relation.SUFFIX_SUBWORD)]
    hyperword = ("xabcx", Relation.INFIX_HYPERWORD)
    assert similar[0] == [*parts, hyperword]
    assert similar[1] == [
        ("a", Relation.PREFIX_SUBWORD),
        ("b", Relation.INFIX_SUBWORD),
        ("c", Relation.SUFFIX_SUBWORD),
        hyperword,
    ]
    assert similar[2] == parts
    assert similar[3][0] == ("abc", Relation.PREFIX_SUBWORD) and len(similar[3]) == 4, "itself, were it not said"


def test_a_part_that_occurs_twice_is_similar_once() -> None:
    token = SimulatedToken(Entry("aba", False), 3, 0)
    assert _named(SimilarCache(SOURCE, 10), token) == [[("a", Relation.PREFIX_SUBWORD), ("b", Relation.INFIX_SUBWORD)]]
