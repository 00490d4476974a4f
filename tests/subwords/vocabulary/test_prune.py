"""Vocabularies without rarely used pieces: as many as asked for, all of them used, and nothing else lost."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from itertools import islice
from pathlib import Path
from typing import get_args

import pytest
import sentencepiece

from subgraft.base.errors import UserError
from subgraft.config.settings_base import VocabularyKind
from subgraft.data.text import reading
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.sentencepiece_model import ordinary_pieces
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from vocabularies import invented, with_room

KINDS: tuple[VocabularyKind, ...] = get_args(VocabularyKind)
SIZE, MIN_COUNT = 320, 4


def made_up(count: int, seed: int) -> list[str]:
    """Words that nobody says, each a few times at most."""
    chooser = random.Random(seed)
    return ["".join(chooser.choices("abdeginorst", k=chooser.randint(5, 9))) for _ in range(count)]


# Of invented words all pieces are common; made-up ones, each at most three times, fill a vocabulary with rare ones.
LINES = [*invented(60), *(" ".join(made_up(6, seed)) for seed in range(80) for _ in range(1 + seed % 3))]


@cache
def pruned(kind: VocabularyKind, byte_fallback: bool = False) -> Tokenizer:
    size = with_room(kind, SIZE) + 256 * byte_fallback
    return learn(
        LINES,
        kind=kind,
        size=size,
        min_count=MIN_COUNT,
        character_coverage=1.0,
        byte_fallback=byte_fallback,
        mask=True,
        languages=["en_XX"],
    )


@cache
def plain(kind: VocabularyKind) -> Tokenizer:
    return learn(LINES, kind=kind, size=with_room(kind, SIZE), character_coverage=1.0, mask=True, languages=["en_XX"])


def used(tokenizer: Tokenizer) -> Counter[str]:
    return Counter(tokenizer.pieces[i] for ids in tokenizer.encode_batch(LINES) for i in ids)


def rare(tokenizer: Tokenizer, below: int) -> set[str]:
    """Pieces of more than one character that the text uses fewer times."""
    counts, other = used(tokenizer), tokenizer.special_ids | set(tokenizer.byte_ids.values())
    ordinary = {piece for i, piece in enumerate(tokenizer.pieces) if i not in other}
    return {piece for piece in ordinary if len(piece.removeprefix("##")) > 1 and counts[piece] < below}


@pytest.mark.parametrize("kind", KINDS)
def test_as_many_pieces_as_asked_for_and_none_is_rare(kind: VocabularyKind) -> None:
    tokenizer = pruned(kind)
    size = with_room(kind, SIZE)
    assert len(tokenizer) == size == len(set(tokenizer.pieces))
    assert len(rare(plain(kind), MIN_COUNT)) > 5
    left = rare(tokenizer, MIN_COUNT)
    if kind not in ("bpe", "byte-level-bpe"):
        assert not left
    common = {piece for piece in tokenizer.pieces if piece not in left}
    assert all(any(piece in longer and piece != longer for longer in common) for piece in left)
    assert tokenizer.languages == {"en_XX": size - 1} and "mask" in tokenizer.special


@pytest.mark.parametrize("kind", KINDS)
def test_what_could_be_spelled_still_can(kind: VocabularyKind) -> None:
    tokenizer, before = pruned(kind), plain(kind)
    alphabet = {piece for piece in before.pieces if len(piece.removeprefix("##")) == 1}
    assert alphabet and alphabet <= set(tokenizer.pieces)
    assert tokenizer.special["unk"] not in {i for ids in tokenizer.encode_batch(LINES) for i in ids}
    assert [tokenizer.decode(tokenizer.encode(line)) for line in LINES] == [
        before.decode(before.encode(line)) for line in LINES
    ]


def test_a_piece_that_a_kept_one_is_merged_from_stays() -> None:
    """Every piece of a BPE vocabulary, cut by the vocabulary, is itself."""
    tokenizer = pruned("bpe")
    words = {piece for piece in tokenizer.pieces if piece.startswith("▁") and len(piece) > 1}
    assert len(words) > 40
    assert [word for word in words if len(tokenizer.encode(word.removeprefix("▁"))) != 1] == []


@pytest.mark.parametrize("kind", KINDS)
def test_where_nothing_is_rare_nothing_changes(kind: VocabularyKind) -> None:
    lines, size = invented(600), with_room(kind, 120)
    expected = learn(lines, kind=kind, size=size)
    counts = Counter(i for ids in expected.encode_batch(lines) for i in ids)
    ordinary = [i for i, piece in enumerate(expected.pieces) if i not in expected.special_ids and len(piece) > 1]
    least = min(counts[i] for i in ordinary if counts[i])
    if kind == "unigram":
        assert all(counts[i] for i in ordinary), "each is used"
        assert learn(lines, kind=kind, size=size, min_count=least).fingerprint == expected.fingerprint
    assert learn(lines, kind=kind, size=size, min_count=None).fingerprint == expected.fingerprint


@pytest.mark.parametrize(("kind", "byte_fallback"), [("unigram", False), ("bpe", False), ("unigram", True)])
def test_the_sentencepiece_model_cuts_text_as_the_tokenizer_does(
    kind: VocabularyKind, byte_fallback: bool, tmp_path: Path
) -> None:
    pruned(kind, byte_fallback).save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    model = (tmp_path / "sentencepiece.model").read_bytes()
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    assert processor.get_piece_size() == len(loaded) - 2, "all but the mask and the code"
    assert [loaded.pieces.index(piece) for piece in ordinary_pieces(model)] == sorted(
        i for i in range(processor.get_piece_size()) if loaded.entries[i] is not None or loaded.pieces[i] == "▁"
    )
    texts = [*LINES, *invented(100, seed=9), *(" ".join(made_up(6, seed)) for seed in range(90, 120)), "🙂 Ω", "", "▁ "]
    assert loaded.encode_batch(texts) == processor.encode(texts)


@pytest.mark.data
@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_real_text_is_cut_alike_by_both(kind: VocabularyKind, mirror: Path, tmp_path: Path) -> None:
    lines = list(islice(reading.lines(mirror / "en-fr/itdocs/train.fr.gz"), 3000))
    learn(lines, kind=kind, size=1500, min_count=8, byte_fallback=True).save(tmp_path)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "sentencepiece.model"))
    texts = [*lines, *islice(reading.lines(mirror / "en-fr/laws/train.fr.gz"), 1000)]
    assert Tokenizer.load(tmp_path).encode_batch(texts) == processor.encode(texts)


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_text_cannot_give_is_refused_with_a_size_that_it_can(kind: VocabularyKind) -> None:
    lines, size = LINES[-60:], with_room(kind, 150)
    with pytest.raises(UserError, match=f"vocabulary of {size} pieces that are each used at least 60 times") as caught:
        learn(lines, kind=kind, size=size, min_count=60, languages=["en_XX"])
    possible = int(re.search(r"Ask for (\d+)", caught.value.hint)[1])  # type: ignore[index]
    assert possible < size
    assert len(learn(lines, kind=kind, size=possible, min_count=60, languages=["en_XX"])) == possible


PROGRAM = """
from test_prune import KINDS, pruned
for kind in KINDS:
    print(pruned(kind).fingerprint)
"""


def test_the_same_text_gives_the_same_vocabulary_in_another_process() -> None:
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parents[1] / "support"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": path}
    made = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True)
    assert made.stdout.split() == [pruned(kind).fingerprint for kind in KINDS]
