from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from tokenizers import pre_tokenizers
from transformers import AutoTokenizer

from subgraft.base.errors import UserError
from subgraft.config.settings_base import VocabularyKind
from subgraft.subwords.vocabulary.directory import Source
from subgraft.subwords.vocabulary.entry import Mark
from subgraft.subwords.vocabulary.learn import kind_like, learn, sample
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from vocabularies import byte_level, invented, unigram, with_room, wordpiece

KINDS: tuple[VocabularyKind, ...] = get_args(VocabularyKind)
LINES = invented(600)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [110, 151])
def test_the_size_is_exact_and_counts_everything(kind: VocabularyKind, size: int) -> None:
    size = with_room(kind, size)
    tokenizer = learn(LINES, kind=kind, size=size, mask=True, languages=["en_XX", "de_DE"])
    assert len(tokenizer) == size == len(set(tokenizer.pieces))
    assert tokenizer.languages == {"en_XX": size - 2, "de_DE": size - 1}


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_special_tokens_of_sentencepiece_kinds(kind: VocabularyKind) -> None:
    assert learn(LINES, kind=kind, size=120).special == {"bos": 0, "pad": 1, "eos": 2, "unk": 3}
    masked = learn(LINES, kind=kind, size=120, mask=True, languages=["en_XX"])
    assert masked.pieces[-2:] == ("<mask>", "en_XX") and masked.special["mask"] == 118


def test_special_tokens_of_wordpiece() -> None:
    tokenizer = learn(LINES, kind="wordpiece", size=120)
    assert tokenizer.pieces[:5] == ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    assert tokenizer.special == {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4, "bos": 2, "eos": 3}


@pytest.mark.parametrize("kind", KINDS)
def test_every_model_finds_its_special_tokens_in_a_vocabulary_like_its_own(kind: VocabularyKind) -> None:
    models = {
        "mbart": unigram(["▁a"], last=["ar_AR", "en_XX", "<mask>"]),
        "gpt2": byte_level(LINES, 300),
        "bert": wordpiece(["a"]),
        "other": unigram(["▁a"], last=["<end>"], config={"eos_token": "<end>", "bos_token": None}),
    }
    for name, like in models.items():
        tokenizer = learn(LINES, kind=kind, size=with_room(kind, 150), like=like)
        assert len(tokenizer) == with_room(kind, 150)
        missing = {role for role in like.special if role not in tokenizer.special}
        assert not missing, (name, missing)
        assert list(tokenizer.languages) == list(like.languages)
        for role in {"bos", "eos", "pad", "mask"} & set(like.special):
            assert tokenizer.pieces[tokenizer.special[role]] == like.pieces[like.special[role]], name
        assert tokenizer.special["unk"] != tokenizer.special["eos"]
        assert tokenizer.special["pad"] != tokenizer.special["eos"]


def test_like_mbart_the_language_codes_come_in_its_order() -> None:
    like = unigram(["▁a"], last=["ar_AR", "en_XX", "<mask>"])
    tokenizer = learn(LINES, kind="unigram", size=120, like=like, languages=["uk_UA", "en_XX"])
    assert tokenizer.pieces[-4:] == ("uk_UA", "ar_AR", "en_XX", "<mask>")


def test_like_an_uncased_bert_words_are_lower_case() -> None:
    from tokenizers.normalizers import BertNormalizer

    like = wordpiece(["a"], BertNormalizer(lowercase=True))
    tokenizer = learn(LINES, kind="wordpiece", size=120, like=like)
    assert tokenizer.encode("FARMER") == tokenizer.encode("farmer")
    assert tokenizer.mark is Mark.WORDPIECE


@pytest.mark.parametrize("kind", KINDS)
def test_too_large_a_vocabulary_is_refused_with_the_largest_possible(kind: VocabularyKind) -> None:
    with pytest.raises(UserError) as caught:
        learn(LINES[:40], kind=kind, size=5000, mask=True, languages=["en_XX"])
    assert "does not support a vocabulary of 5000 pieces" in str(caught.value)
    largest = int(re.search(r"at most (\d+)", caught.value.hint)[1])  # type: ignore[index]
    assert len(learn(LINES[:40], kind=kind, size=largest, mask=True, languages=["en_XX"])) == largest
    with pytest.raises(UserError):
        learn(LINES[:40], kind=kind, size=largest + 1, mask=True, languages=["en_XX"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 4, 20])
def test_too_small_a_vocabulary_is_refused_with_the_smallest_possible(kind: VocabularyKind, size: int) -> None:
    codes = ["en_XX", "de_DE", "fr_XX"]
    with pytest.raises(UserError, match="no room") as caught:
        learn(LINES, kind=kind, size=size, languages=codes)
    smallest = int(re.search(r"at least (\d+)", caught.value.hint)[1])  # type: ignore[index]
    assert len(learn(LINES, kind=kind, size=smallest, languages=codes)) == smallest
    with pytest.raises(UserError, match="no room"):
        learn(LINES, kind=kind, size=smallest - 1, languages=codes)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lines", [[], ["", "  "]])
def test_an_empty_corpus_is_refused(kind: VocabularyKind, lines: list[str]) -> None:
    with pytest.raises(UserError, match="no text"):
        learn(lines, kind=kind, size=with_room(kind, 100))


@pytest.mark.parametrize("kind", ["unigram", "bpe", "wordpiece"])
def test_rare_characters_beyond_the_coverage_are_unknown(kind: VocabularyKind) -> None:
    lines = [*LINES, "Ω farm"]
    for coverage, known in ((0.999, False), (1.0, True)):
        tokenizer = learn(lines, kind=kind, size=150, character_coverage=coverage)
        assert (tokenizer.special["unk"] not in tokenizer.encode("Ω")) is known


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_reads_it(kind: VocabularyKind, tmp_path: Path) -> None:
    tokenizer = learn(LINES, kind=kind, size=with_room(kind, 150), mask=True, languages=["en_XX"])
    tokenizer.save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert len(theirs) == with_room(kind, 150)
    for role, i in tokenizer.special.items():
        assert getattr(theirs, f"{role}_token_id") == i
    for text in invented(30, seed=4):
        ids = theirs(text, add_special_tokens=False)["input_ids"]
        assert ids == tokenizer.encode(text)
        assert theirs.decode(ids) == tokenizer.decode(ids)


PROGRAM = """
import sys
from vocabularies import invented, with_room
from subgraft.subwords.vocabulary.learn import learn
for kind in ("unigram", "bpe", "wordpiece", "byte-level-bpe"):
    size = with_room(kind, 150)
    print(learn(invented(600), kind=kind, size=size, max_lines=500, seed=3).fingerprint)
"""


def test_the_same_text_gives_the_same_vocabulary_in_another_process() -> None:
    def fingerprints(threads: str) -> str:
        environment = os.environ | {
            "PYTHONHASHSEED": threads,
            "RAYON_NUM_THREADS": threads,
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2] / "support"), *sys.path]),
        }
        command = [sys.executable, "-c", PROGRAM]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

    first = fingerprints("1")
    assert len(first.split()) == 4
    assert first == fingerprints("4") == fingerprints("2")


def test_byte_level_spells_everything_and_cuts_words_as_the_model_it_is_like() -> None:
    digits = byte_level(LINES, 300)
    digits.backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    like = Tokenizer(Source(digits.backend.to_str(), digits.config))
    lines = [*LINES, *["12 12 12"] * 50]
    plain, alike = (learn(lines, kind="byte-level-bpe", size=350, like=each) for each in (byte_level(LINES, 300), like))
    assert "12" in plain.pieces and "12" not in alike.pieces
    for tokenizer in (plain, alike):
        assert tokenizer.mark is Mark.BYTELEVEL and len(tokenizer.byte_ids) == 256
        assert tokenizer.decode(tokenizer.encode("数 Ω 🙂\tfarmer")) == "数 Ω 🙂\tfarmer"
        assert tokenizer.special["eos"] == tokenizer.pieces.index("<|endoftext|>")
    with pytest.raises(UserError, match="character_coverage"):
        learn(LINES, kind="byte-level-bpe", size=400, character_coverage=0.99)


def test_a_sample_is_uniform_in_order_and_decided_by_its_seed() -> None:
    lines = [f"{i:02}" for i in range(20)]
    counts = dict.fromkeys(lines, 0)
    for seed in range(2000):
        drawn = sample(lines, 5, seed)
        assert drawn == sorted(set(drawn)) and len(drawn) == 5
        for line in drawn:
            counts[line] += 1
    assert all(400 < count < 600 for count in counts.values())  # 500 expected, standard deviation 19
    assert sample(lines, 5, 7) == sample(iter(lines), 5, 7)
    assert sample(lines, 50, 7) == lines


def test_byte_fallback_goes_with_sentencepiece_only() -> None:
    assert len(learn(LINES, kind="unigram", size=400, byte_fallback=True).byte_ids) == 256
    with pytest.raises(UserError, match="byte_fallback"):
        learn(LINES, kind="wordpiece", size=400, byte_fallback=True)


def test_a_vocabulary_too_small_for_the_bytes_is_refused() -> None:
    with pytest.raises(UserError, match="256 of them are the bytes") as refused:
        learn(LINES, kind="unigram", size=120, byte_fallback=True)
    assert refused.value.hint is not None and "byte_fallback" in refused.value.hint


def test_a_learnt_vocabulary_keeps_its_sentencepiece_model(tmp_path: Path) -> None:
    learn(LINES, kind="unigram", size=120).save(tmp_path / "one")
    Tokenizer.load(tmp_path / "one").save(tmp_path / "two")
    for name in ("tokenizer.json", "tokenizer_config.json", "sentencepiece.model"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_the_kind_of_a_learnt_vocabulary_is_found(kind: VocabularyKind) -> None:
    assert kind_like(learn(LINES, kind=kind, size=with_room(kind, 151))) == kind


@pytest.mark.parametrize("kind", ["unigram", "bpe", "wordpiece", "byte-level-bpe"])
def test_a_word_of_any_length_is_learnt_from_in_parts(kind: VocabularyKind) -> None:
    generator = random.Random(1)
    word = "".join(generator.choice("abcdefgh") for _ in range(50_000))
    lines = [*(f"the cat sat on the mat {number}" for number in range(300)), word]
    assert len(learn(lines, kind=kind, size=330)) == 330
