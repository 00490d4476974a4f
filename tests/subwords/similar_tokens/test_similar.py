from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subgraft.base.errors import UserError
from subgraft.config.settings_base import VocabularyKind
from subgraft.data.text import reading
from subgraft.subwords.similar_tokens.finder import Fallback, Relation, SimilarTokenFinder, SimilarTokens
from subgraft.subwords.vocabulary.entry import Entry, Mark
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from vocabularies import byte_level, unigram, wordpiece

Row = list[tuple[str, Relation]]


def brute_force(tokenizer: Tokenizer, entry: Entry, max_similar: int) -> list[tuple[int, Relation]]:
    """Sm(w) by scanning the vocabulary, one sentence of the definition after the other."""
    parts = [i for i in tokenizer.segment(entry) if not _is_bare_mark(tokenizer, i)]
    similar: dict[int, Relation] = {}
    for relation, places in (
        (Relation.PREFIX_SUBWORD, parts[:1]),
        (Relation.SUFFIX_SUBWORD, parts[1:][-1:]),
        (Relation.INFIX_SUBWORD, parts[1:-1]),
    ):
        for i in places:
            if tokenizer.entries[i] is not None:
                similar.setdefault(i, relation)
    similar = {i: similar[i] for i in parts if i in similar}
    longer = [(i, relation) for i, relation in _hyperwords(tokenizer, entry) if i not in similar]
    longer.sort(key=lambda pair: int(tokenizer.frequency_rank[pair[0]]))
    return [*similar.items(), *longer[: max(0, max_similar - len(similar))]]


def _is_bare_mark(tokenizer: Tokenizer, i: int) -> bool:
    return i not in tokenizer.special_ids and tokenizer.pieces[i] == tokenizer.mark.value != "##"


def _hyperwords(tokenizer: Tokenizer, entry: Entry) -> list[tuple[int, Relation]]:
    result = []
    inside = entry.surface
    for longer, i in tokenizer.ids.items():
        outside = longer.surface
        if len(outside) <= len(inside) or inside not in outside:
            continue
        if entry.word_initial:
            if longer.word_initial and outside.startswith(inside):
                result.append((i, Relation.PREFIX_HYPERWORD))
        elif outside.startswith(inside) and not longer.word_initial:
            result.append((i, Relation.PREFIX_HYPERWORD))
        elif outside.endswith(inside):
            result.append((i, Relation.SUFFIX_HYPERWORD))
        elif inside in outside[1:]:
            result.append((i, Relation.INFIX_HYPERWORD))
    return result


def _row(similar: SimilarTokens, row: int) -> list[tuple[int, Relation]]:
    span = slice(similar.offsets[row], similar.offsets[row + 1])
    return [
        (i, Relation(relation))
        for i, relation in zip(similar.token_ids[span].tolist(), similar.relations[span].tolist(), strict=True)
    ]


def _named(tokenizer: Tokenizer, entry: Entry, max_similar: int = 10) -> Row:
    similar = SimilarTokenFinder(tokenizer, max_similar).find([entry])
    return [(tokenizer.pieces[i], relation) for i, relation in _row(similar, 0)]


def _assert_exact(tokenizer: Tokenizer, entries: Sequence[Entry], max_similar: int) -> SimilarTokens:
    similar = SimilarTokenFinder(tokenizer, max_similar).find(entries)
    assert len(similar) == len(entries)
    for row, entry in enumerate(entries):
        expected = brute_force(tokenizer, entry, max_similar)
        if expected:
            assert _row(similar, row) == expected, entry
            assert similar.fallback[row] == Fallback.NONE
        else:
            assert similar.fallback[row] != Fallback.NONE
    return similar


def test_the_over_segmented_word_of_the_paper() -> None:
    # Liu et al. 2021, Table 1: "dankbar" in the vocabulary of a general model.
    ours = unigram(["▁", "▁dan", "k", "bar", "▁undankbar", "▁dankbarkeit"])
    assert _named(ours, Entry("dankbar", True)) == [
        ("▁dan", Relation.PREFIX_SUBWORD),
        ("k", Relation.INFIX_SUBWORD),
        ("bar", Relation.SUFFIX_SUBWORD),
        ("▁dankbarkeit", Relation.PREFIX_HYPERWORD),
    ]


def test_wordpiece_marks() -> None:
    ours = wordpiece(["pre", "##view", "previews", "previewed", "##preview", "view", "##viewer"])
    assert _named(ours, Entry("preview", True)) == [
        ("pre", Relation.PREFIX_SUBWORD),
        ("##view", Relation.SUFFIX_SUBWORD),
        ("previews", Relation.PREFIX_HYPERWORD),
        ("previewed", Relation.PREFIX_HYPERWORD),
    ]


def test_all_six_relations() -> None:
    ours = unigram(["un", "think", "able", "▁unthinkables", "unthinkableness", "reunthinkable", "xunthinkablex"])
    assert _named(ours, Entry("unthinkable", False)) == [
        ("un", Relation.PREFIX_SUBWORD),
        ("think", Relation.INFIX_SUBWORD),
        ("able", Relation.SUFFIX_SUBWORD),
        ("unthinkableness", Relation.PREFIX_HYPERWORD),
        ("reunthinkable", Relation.SUFFIX_HYPERWORD),
        ("xunthinkablex", Relation.INFIX_HYPERWORD),
    ]


def test_word_boundaries_count() -> None:
    ours = unigram(["▁e", "e", "r", "▁error", "error", "▁her", "her", "▁erer"])
    initial = _named(ours, Entry("er", True))
    assert [piece for piece, _ in initial] == ["▁e", "r", "▁error", "▁erer"]
    continuing = dict(_named(ours, Entry("er", False)))
    assert continuing == {
        "e": Relation.PREFIX_SUBWORD,
        "r": Relation.SUFFIX_SUBWORD,
        "error": Relation.PREFIX_HYPERWORD,
        "▁her": Relation.SUFFIX_HYPERWORD,
        "her": Relation.SUFFIX_HYPERWORD,
        "▁erer": Relation.SUFFIX_HYPERWORD,
    }


def test_a_repeated_subword_counts_once_under_the_first_relation_that_applies() -> None:
    ours = unigram(["a", "b", "c"])
    assert _named(ours, Entry("abcba", False)) == [
        ("a", Relation.PREFIX_SUBWORD),
        ("b", Relation.INFIX_SUBWORD),
        ("c", Relation.INFIX_SUBWORD),
    ]
    assert _named(ours, Entry("abcb", False)) == [
        ("a", Relation.PREFIX_SUBWORD),
        ("b", Relation.SUFFIX_SUBWORD),
        ("c", Relation.INFIX_SUBWORD),
    ]


def test_a_bare_mark_is_not_a_part_but_an_unknown_character_is() -> None:
    ours = unigram(["▁", "old", "s"])
    assert _named(ours, Entry("old", True)) == [("old", Relation.PREFIX_SUBWORD)]
    assert _named(ours, Entry("Ωolds", False)) == [("old", Relation.INFIX_SUBWORD), ("s", Relation.SUFFIX_SUBWORD)]


def test_subwords_stay_and_hyperwords_are_cut_by_commonness() -> None:
    ours = unigram(["a", "b", "c", "xabc", "yabc", "zabc"], [-1.0, -1.0, -1.0, -40.0, -20.0, -30.0])
    entry = Entry("abc", False)
    assert [piece for piece, _ in _named(ours, entry, 5)] == ["a", "b", "c", "yabc", "zabc"]
    assert [piece for piece, _ in _named(ours, entry, 2)] == ["a", "b", "c"]


def test_special_tokens_and_language_codes_are_never_similar() -> None:
    ours = unigram(["▁", "m", "a", "s", "k", "e", "n", "_", "X"], last=["<mask>", "en_XX", "askers"])
    result = {piece for word in ("mask", "en", "ask", "a", "XX") for piece, _ in _named(ours, Entry(word, False))}
    assert result and result.isdisjoint({"<mask>", "en_XX", "askers", "<unk>"})


def test_fallbacks_in_their_order() -> None:
    # WordPiece gives up a whole word for one character that it does not know.
    ours = wordpiece(["n", "##a", "##v", "##e", "##na"])
    result = SimilarTokenFinder(ours).find([Entry("naïvean", True), Entry("ïï", True), Entry("n", True)])
    assert result.fallback.tolist() == [Fallback.CHARACTERS, Fallback.MEAN, Fallback.NONE]
    assert [(ours.pieces[i], relation) for i, relation in _row(result, 0)] == [
        ("n", Relation.PREFIX_SUBWORD),
        ("##a", Relation.INFIX_SUBWORD),
        ("##v", Relation.INFIX_SUBWORD),
        ("##e", Relation.INFIX_SUBWORD),
    ]
    assert _row(result, 1) == []
    assert result.fallback_counts() == {"characters": 1, "bytes": 0, "mean": 1}


@pytest.mark.parametrize("kind", ["fallback", "byte level"])
def test_bytes_stand_in_for_what_no_piece_spells(kind: str) -> None:
    ours = unigram(["▁a"], byte_fallback=True) if kind == "fallback" else byte_level(["a b c d e"] * 3, 270)
    result = SimilarTokenFinder(ours).find([Entry("漢", False), Entry("漢a", False)])
    assert result.fallback.tolist() == [Fallback.BYTES, Fallback.BYTES if kind == "fallback" else Fallback.NONE]
    first, middle, last = (ours.byte_ids[byte] for byte in "漢".encode())
    assert _row(result, 0) == [
        (first, Relation.PREFIX_SUBWORD),
        (middle, Relation.INFIX_SUBWORD),
        (last, Relation.SUFFIX_SUBWORD),
    ]


def test_no_new_tokens_and_no_room() -> None:
    assert len(SimilarTokenFinder(unigram(["a"])).find([])) == 0
    with pytest.raises(UserError, match="max_similar"):
        SimilarTokenFinder(unigram(["a"]), 0)


PIECES = st.lists(st.text("ab▁", min_size=1, max_size=5), min_size=1, max_size=30, unique=True)
NEW = st.lists(st.builds(Entry, st.text("abc", min_size=1, max_size=5), st.booleans()), max_size=6)


@settings(max_examples=60)
@given(PIECES, NEW, st.integers(1, 6))
def test_equals_brute_force_on_random_unigrams(pieces: list[str], entries: list[Entry], max_similar: int) -> None:
    scores = [-1.0 - (len(piece) * 7 + i * 5) % 11 for i, piece in enumerate(pieces)]
    whole = [(piece, score) for piece, score in zip(pieces, scores, strict=True) if "▁" not in piece[1:]]
    if whole:
        _assert_exact(unigram(*zip(*whole, strict=True)), entries, max_similar)


@settings(max_examples=60)
@given(st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=15, unique=True), NEW, st.integers(1, 6))
def test_equals_brute_force_on_random_wordpieces(pieces: list[str], entries: list[Entry], max_similar: int) -> None:
    marked = ["##" + piece if len(piece) % 2 else piece for piece in pieces]
    _assert_exact(wordpiece([*marked, *(p.removeprefix("##") for p in marked if p[:2] == "##")]), entries, max_similar)


@pytest.mark.data
@pytest.mark.parametrize("mark", Mark)
def test_equals_brute_force_on_a_real_vocabulary(mirror: Path, mark: Mark) -> None:
    everyday = islice(reading.lines(mirror / "en-fr/tatoeba/train.fr.gz"), None, None, 4)
    documentation = islice(reading.lines(mirror / "en-fr/itdocs/train.fr.gz"), 8000)
    kind: VocabularyKind = "wordpiece" if mark is Mark.WORDPIECE else "unigram"
    upstream = byte_level(everyday, 8000) if mark is Mark.BYTELEVEL else learn(everyday, kind=kind, size=8000)
    downstream = learn(documentation, kind="unigram", size=8000)
    new = [entry for entry in downstream.ids if entry not in upstream.ids]
    assert len(new) > 5000
    similar = _assert_exact(upstream, new[:: len(new) // 400], 10)
    assert set(similar.relations.tolist()) == set(Relation)
