"""Every bit of a text is counted once, in the stretch that it was spent on, whatever the vocabulary."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np
import pytest

from subgraft.evaluation.metrics.token_classes import (
    CLASSES,
    NOT_SPELLED,
    SEEN,
    BitsByClass,
    Likelihood,
    common_ends,
    spread,
    token_classes,
)
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import NO_OFFSET, Tokenizer
from toys import german
from vocabularies import unigram

UPSTREAM = unigram(["▁the", "▁dan", "k", "bar", "▁nach", "t", "▁"])
DOWNSTREAM = unigram(["▁the", "▁dankbar", "▁nacht", "▁x", "▁y", "▁z", "▁"])
TRAINING = ["nacht dankbar"] * 2 + ["dankbar the"] * 9 + ["x"] * 100 + ["y"] * 101


def names(classes: np.ndarray, vocabulary: Tokenizer) -> dict[str, str]:
    return {piece: CLASSES[each] for piece, each in zip(vocabulary.pieces, classes, strict=True)}


def test_new_tokens_are_classed_by_how_often_they_occur() -> None:
    classes = names(token_classes(DOWNSTREAM, UPSTREAM, TRAINING), DOWNSTREAM)
    assert classes == {
        **dict.fromkeys(("<s>", "<pad>", "</s>", "▁the", "▁"), SEEN),
        "<unk>": NOT_SPELLED,
        "▁z": "0",
        "▁nacht": "1–2",
        "▁dankbar": "11–100",
        "▁x": "11–100",
        "▁y": "over 100",
    }
    assert names(token_classes(DOWNSTREAM, UPSTREAM, ["dankbar"] * 3), DOWNSTREAM)["▁dankbar"] == "3–10"
    assert set(names(token_classes(UPSTREAM, UPSTREAM, TRAINING), UPSTREAM).values()) == {SEEN, NOT_SPELLED}


def test_bytes_are_new_only_where_upstream_has_none() -> None:
    with_bytes = unigram(["▁the"], byte_fallback=True)
    other = unigram(["▁a"], byte_fallback=True)
    piece = with_bytes.byte_ids[65]
    assert CLASSES[token_classes(with_bytes, other, [])[piece]] == SEEN
    assert CLASSES[token_classes(with_bytes, UPSTREAM, [])[piece]] == "0"


def measured(own: Tokenizer, lines: Sequence[str], nats: Sequence[Sequence[float]] | None = None) -> Likelihood:
    sums = BitsByClass(
        (own, token_classes(own, UPSTREAM, TRAINING)),
        UPSTREAM,
        (DOWNSTREAM, token_classes(DOWNSTREAM, UPSTREAM, TRAINING)),
    )
    drawn = np.random.default_rng(1)
    lost = [drawn.random(len(own.encode(line)) + 1) for line in lines] if nats is None else list(map(np.array, nats))
    sums.add(lines, lost)
    return sums.result(left_out=0)


LINE = "the dankbar nacht"


def test_stretches_are_the_same_for_every_vocabulary_and_hold_their_own_bits() -> None:
    ln2 = math.log(2)
    new = measured(DOWNSTREAM, [LINE], [[1 * ln2, 2 * ln2, 4 * ln2, 8 * ln2]])
    old = measured(UPSTREAM, [LINE], [[k * ln2 for k in (1, 10, 20, 30, 100, 200, 8)]])
    assert UPSTREAM.encode(LINE) == [UPSTREAM.pieces.index(p) for p in ("▁the", "▁dan", "k", "bar", "▁nach", "t")]
    bits: dict[str, object]
    bits = {name: (each.units, each.characters, each.bits) for name, each in new.stretches.items()}
    assert bits == {
        SEEN: (1, 3, pytest.approx(1)),
        "11–100": (1, 8, pytest.approx(2)),
        "1–2": (1, 6, pytest.approx(4)),
    }
    bits = {name: (each.units, each.characters, each.bits) for name, each in old.stretches.items()}
    assert bits == {
        SEEN: (1, 3, pytest.approx(1)),
        "11–100": (1, 8, pytest.approx(60)),
        "1–2": (1, 6, pytest.approx(300)),
    }
    assert new.end_bits == pytest.approx(8) == old.end_bits
    assert new.bits_per_character == pytest.approx(15 / len(LINE))
    assert {name: each.units for name, each in new.tokens.items()} == {SEEN: 1, "11–100": 1, "1–2": 1}
    assert {name: each.units for name, each in old.tokens.items()} == {SEEN: 6}


@pytest.mark.parametrize("own", [UPSTREAM, DOWNSTREAM], ids=["upstream", "downstream"])
def test_no_bit_and_no_character_is_lost(own: Tokenizer) -> None:
    lines = ["dankbar the nacht", " the  k nacht ", "", "(the) dankbar!", "zz z"]
    result = measured(own, lines)
    assert sum(each.characters for each in result.stretches.values()) == result.characters == sum(map(len, lines))
    assert sum(each.bits for each in result.stretches.values()) + result.end_bits == pytest.approx(result.bits)
    assert sum(each.bits for each in result.tokens.values()) + result.end_bits == pytest.approx(result.bits)
    assert result.sentences == 5


def test_a_stretch_that_either_vocabulary_cannot_spell_is_set_apart() -> None:
    lost_upstream = measured(DOWNSTREAM, ["the x"])
    assert DOWNSTREAM.special["unk"] not in DOWNSTREAM.encode("the x")
    assert set(lost_upstream.stretches) == {SEEN, NOT_SPELLED}
    assert set(measured(UPSTREAM, ["the k"]).stretches) == {SEEN, NOT_SPELLED}, "the downstream one lacks the k"


def test_text_without_spaces_has_stretches_too() -> None:
    training = [line.replace(" ", "") for line in german(400)]
    lines = training[:40]
    old, new = (learn(training, kind="unigram", size=size) for size in (60, 200))
    classes = token_classes(new, old, training)
    sums = BitsByClass((new, classes), old, (new, classes))
    sums.add(lines, [np.ones(len(new.encode(line)) + 1) for line in lines])
    likelihood = sums.result(left_out=0)
    assert sum(each.units for each in likelihood.stretches.values()) > 2 * len(lines)
    assert len(likelihood.stretches) > 2


def test_amounts_are_spread_over_the_characters_of_their_token() -> None:
    assert spread([NO_OFFSET, 2, 3], [1.0, 3.0, 5.0], 3).tolist() == [2.0, 2.0, 5.0], "a mark's goes to what it marks"
    assert spread([1, 1, 1, 2], [1.0, 1.0, 1.0, 4.0], 2).tolist() == [3.0, 4.0], "bytes of one character"
    assert spread([2, NO_OFFSET], [2.0, 7.0], 3).tolist() == [1.0, 1.0, 7.0]
    assert spread([2], [2.0, 9.0], 2).tolist() == [1.0, 1.0], "the end of the sentence belongs to no character"


def test_ends_meet_at_the_end_of_the_text() -> None:
    assert common_ends([1, 3, 6], [NO_OFFSET, 2, 3, 6], 7) == [3, 6, 7]
    assert common_ends([], [4], 5) == [5]


def test_json_is_read_as_it_was_written() -> None:
    likelihood = measured(DOWNSTREAM, [LINE, "the x"])
    assert Likelihood.from_json(json.loads(json.dumps(likelihood.to_json()))) == likelihood
    assert likelihood.to_json()["bits_per_character"] == likelihood.bits_per_character


def test_an_empty_text_has_no_likelihood() -> None:
    nothing = np.zeros(20, dtype=np.int64)
    with pytest.raises(ValueError, match="empty text"):
        BitsByClass((UPSTREAM, nothing), UPSTREAM, (UPSTREAM, nothing)).result(0)
