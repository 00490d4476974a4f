"""A vocabulary learnt like a model's, or extended from it, keeps of a text what the model's own keeps."""

from __future__ import annotations

import json
import random
import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import pytest
import sentencepiece
from tokenizers import normalizers
from transformers import AutoTokenizer

import subgraft
from published import CHECKPOINTS, english, german
from subgraft.base.errors import UserError
from subgraft.config.settings_base import SENTENCEPIECE_KINDS, VocabularyKind
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.subwords.vocabulary.directory import Source
from subgraft.subwords.vocabulary.extend import extend
from subgraft.subwords.vocabulary.learn import kind_like, learn
from subgraft.subwords.vocabulary.normalization import Normalization
from subgraft.subwords.vocabulary.sentencepiece_model import LONGEST_LINE
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

KINDS: tuple[VocabularyKind, ...] = get_args(VocabularyKind)
# One checkpoint of each layout of a tokenizer.
LAYOUTS = (
    *("opus-mt-en-de", "mbart-large-cc25", "mbart-large-50", "nllb-200-distilled-600M", "m2m100_418M", "t5-small"),
    *("madlad400-3b-mt", "bert-base-multilingual-cased", "electra-small-generator", "deberta-v3-base"),
    *("ModernBERT-base", "gpt2", "Llama-2-7b", "Qwen2.5-0.5B", "gemma-2-2b", "Phi-3-mini-4k-instruct", "pythia-70m"),
)
TEXT = [*english(300), *german(300)]
# White space, decomposed and compatibility characters, joiners, digits, emoji, and words that all vocabularies know.
ATOMS = (
    *(" ", "  ", "    ", "\t", "\n", "\n\n", "\u00a0", "\u3000", "e\u0301", "ﬁ", "½", "①", "m²", "™", "Ａ", "…", "ß"),
    *(
        "می\u200cخواهم",
        "ක්\u200dෂ",
        "ខ្ញុំ\u200bចង់",
        "\u200eabc\u200f",
        "Wort\u00adtrennung",
        "👩\u200d💻",
        "👍🏽",
        "हिन्दी",
    ),
    *("2024", "3.14", "７", "the", "Haus", "a", "B", ".", ",", "(", "'s", "don't", "░▅", "中文"),
)


def _hard_lines(count: int) -> list[str]:
    chooser = random.Random(5)
    mixed = ["".join(chooser.choices(ATOMS, k=chooser.randint(1, 7))) for _ in range(count)]
    words = [" ".join(chooser.choices(ATOMS, k=chooser.randint(2, 5))) for _ in range(count)]
    return [*mixed, *words, "        return rent\t  x", "if x:\n    y", "a\nb", "a  b", "  two", "end  "]


HARD = _hard_lines(80)


@cache
def _own(name: str) -> Tokenizer:
    with TemporaryDirectory() as folder:
        CHECKPOINTS[name].publish(Path(folder) / "model")
        return load_tokenizers(Path(folder) / "model")["decoder"]


def _surviving(tokenizer: Tokenizer) -> set[str]:
    return {line for line in HARD if tokenizer.decode(tokenizer.encode(line)) == line}


def _learn(kind: VocabularyKind, like: Tokenizer) -> Tokenizer:
    size = {"byte-level-bpe": 700, "wordpiece": 480}.get(kind, 750) + len(like.languages)
    return learn([*TEXT, *HARD], kind=kind, size=size, byte_fallback=kind in SENTENCEPIECE_KINDS, like=like)


def _require_same_ids(tokenizer: Tokenizer, folder: Path) -> None:
    tokenizer.save(folder)
    theirs, ours = AutoTokenizer.from_pretrained(folder), Tokenizer.load(folder)
    for line in [*TEXT[:20], *HARD]:
        ids = ours.encode(line)
        assert theirs(line, add_special_tokens=False)["input_ids"] == ids == tokenizer.encode(line), repr(line)
        text = theirs.decode(ids, clean_up_tokenization_spaces=False)  # which spells the unknown token out
        assert tokenizer.special.get("unk") in ids or text == ours.decode(ids), repr(line)


@pytest.mark.parametrize("name", LAYOUTS)
def test_what_survives_with_the_models_vocabulary_survives_with_a_learnt_one(name: str, tmp_path: Path) -> None:
    own = _own(name)
    learnt = _learn(kind_like(own), own)
    # SentencePiece removes a single space at the end, which some tokenizer.json do not.
    assert {line for line in _surviving(own) - _surviving(learnt) if line == line.strip(" ")} == set()
    assert Normalization.of(learnt).keep_whitespace == Normalization.of(own).keep_whitespace
    _require_same_ids(learnt, tmp_path)


@pytest.mark.parametrize("name", LAYOUTS)
def test_what_survives_with_a_vocabulary_survives_with_the_extended_one(name: str, tmp_path: Path) -> None:
    own = _own(name)
    extended = extend(own, [*TEXT, *HARD, *HARD], 60)
    assert _surviving(own) <= _surviving(extended)
    _require_same_ids(extended, tmp_path)


@pytest.mark.parametrize("kind", ["unigram", "bpe", "byte-level-bpe"])
@pytest.mark.parametrize("name", ["Llama-2-7b", "gemma-2-2b", "gpt2", "Qwen2.5-0.5B", "bert-base-multilingual-cased"])
def test_also_if_the_kinds_differ(name: str, kind: VocabularyKind) -> None:
    own = _own(name)
    assert _surviving(own) <= _surviving(_learn(kind, own))


@pytest.mark.parametrize("name", ["Llama-2-7b", "gemma-2-2b", "t5-small", "mbart-large-50"])
@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_the_saved_sentencepiece_model_agrees(name: str, kind: VocabularyKind, tmp_path: Path) -> None:
    learnt = _learn(kind, _own(name))
    learnt.save(tmp_path)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "sentencepiece.model"))
    # Symbols behind the pieces, such as Gemma's runs of line ends, are in tokenizer.json alone.
    symbols = [symbol for token, symbol in learnt.symbols.items() if token >= len(processor)]
    lines = [line for line in [*TEXT, *HARD] if line.strip() and not any(symbol in line for symbol in symbols)]
    different = [line for line in lines if processor.encode(line) != learnt.encode(line)]
    # Merges of equal score, as of four spaces, are applied from the left by one and by rank by the other.
    assert len(different) <= len(lines) // 100
    assert [line for line in lines if processor.decode(learnt.encode(line)) != learnt.decode(learnt.encode(line))] == []


def test_a_chat_models_line_ends_are_kept_around_its_turns() -> None:
    own = _own("Llama-2-7b")
    chat = Tokenizer(Source(json.dumps(own.specification), {**own.config, "chat_template": "{{ messages }}"}))
    learnt = _learn("bpe", chat)
    assert learnt.decode(learnt.encode("a\n  b")) == "a\n  b"
    assert learnt.specification["pre_tokenizer"]["prepend_scheme"] == "first"


def test_steps_that_sentencepiece_lacks_are_taken_over(tmp_path: Path) -> None:
    """As of ALBERT: quotation marks, accents and case; there is no sentencepiece.model, which could not do that."""
    own = _own("mbart-large-50")
    specification = own.specification
    table = specification["normalizer"]["normalizers"][0]
    steps = [normalizers.Replace("``", '"'), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
    specification["normalizer"]["normalizers"] = [*(json.loads(step.__getstate__()) for step in steps), table]
    like = Tokenizer(Source(json.dumps(specification), own.config))
    for kind in KINDS:
        learnt = _learn(kind, like)
        assert learnt.decode(learnt.encode("Über The")) == "uber the", kind
        assert kind == "wordpiece" or learnt.decode(learnt.encode("a``b")) == 'a"b'
        assert not [entry for entry in learnt.ids if re.search("[üÜ]|T.", entry.surface)]
        learnt.save(tmp_path / kind)
        assert not (tmp_path / kind / "sentencepiece.model").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_settings_say_otherwise(kind: VocabularyKind) -> None:
    lines = [*TEXT, *["½ 2024 2024  ①"] * 40]
    size = 700 if kind in ("unigram", "bpe", "byte-level-bpe") else 400
    plain = learn(lines, kind=kind, size=size, byte_fallback=kind in SENTENCEPIECE_KINDS)
    keeping = {"keep_whitespace": True, "dummy_prefix": False} if kind in SENTENCEPIECE_KINDS else {}
    options: dict[str, Any] = {"normalization": "identity", "split_digits": True, **keeping}
    changed = learn(lines, kind=kind, size=size, byte_fallback=kind in SENTENCEPIECE_KINDS, **options)
    assert kind == "unigram" or [entry for entry in plain.ids if re.search(r"\d\d", entry.surface)]
    assert not [entry for entry in changed.ids if re.search(r"\d.", entry.surface)]
    assert changed.decode(changed.encode("½ ①")) == "½ ①"
    folded = learn(lines, kind=kind, size=size, normalization="nfkc_cf")
    assert folded.encode("ABC ①") == folded.encode("abc 1")
    if keeping:
        assert changed.decode(changed.encode("  a  b ")) == "  a  b "
        assert changed.encode("Haus") != changed.encode(" Haus")
    else:
        with pytest.raises(UserError, match="keep_whitespace"):
            learn(lines, kind=kind, size=size, keep_whitespace=True)


def _splitting(name: str) -> Tokenizer:
    """A vocabulary with digits apart: by SentencePiece's option, or by pre-tokenizers."""
    if name == "sentencepiece":
        return learn([*TEXT, "0123456789"], kind="bpe", size=600, split_digits=True)
    specification = _own("gpt2").specification
    digits = {"type": "Digits", "individual_digits": True}
    specification["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [digits, specification["pre_tokenizer"]]}
    return Tokenizer(Source(json.dumps(specification), _own("gpt2").config))


@pytest.mark.parametrize("name", ["sentencepiece", "byte-level"])
def test_digits_that_the_model_separates_stay_apart(name: str) -> None:
    like = _splitting(name)
    lines = [*TEXT, *["2024 in 2024"] * 50]
    for kind in KINDS:
        size = 700 if kind in ("unigram", "byte-level-bpe", "bpe") else 400
        learnt = learn(lines, kind=kind, size=size, byte_fallback=kind in SENTENCEPIECE_KINDS, like=like)
        assert not [piece for piece in learnt.pieces if re.search(r"\d.", piece) and not piece.startswith("<")], kind
        assert len(learnt.encode("2024")) >= 4
    extended = extend(like, lines, 20)
    assert not [piece for piece in extended.pieces[len(like) :] if re.search(r"\d", piece)]


def test_no_line_is_skipped() -> None:
    """SentencePiece leaves out lines above its limit, and those with a character that it uses itself."""
    text = " ".join(f"{line} mieter" for line in TEXT)
    long = " ".join([text] * (1 + LONGEST_LINE // len(text)))
    for kind in SENTENCEPIECE_KINDS:
        assert "▁mieter" in learn([long], kind=kind, size=400).pieces
        learnt = learn([*TEXT, *["▅ block"] * 9], kind=kind, size=400)
        assert "▅" in learnt.pieces and learnt.decode(learnt.encode("a ▅ block")) == "a ▅ block"


def test_invisible_joiners_are_part_of_words() -> None:
    words = ["ක්\u200dෂය", "می\u200cخواهم", "👩\u200d💻"]
    learnt = learn([*TEXT, *words * 9], kind="wordpiece", size=400)
    assert [learnt.decode(learnt.encode(word)) for word in words] == words
    # Others are still deleted, as in BERT.
    assert learnt.encode("Ha\u00adus\ufeff") == learnt.encode("Haus")


def test_words_above_berts_limit_are_not_unknown(tmp_path: Path) -> None:
    sequences = ["".join(random.Random(i).choices("ACGT", k=150)) for i in range(100)]
    for like in (None, _own("bert-base-multilingual-cased")):
        learnt = learn(sequences, kind="wordpiece", size=40, like=like)
        assert learnt.special["unk"] not in {token for line in sequences for token in learnt.encode(line)}
    learnt.save(tmp_path / "saved")
    AutoTokenizer.from_pretrained(tmp_path / "saved").save_pretrained(tmp_path / "again")
    again = AutoTokenizer.from_pretrained(tmp_path / "again")
    assert again(sequences[0], add_special_tokens=False)["input_ids"] == learnt.encode(sequences[0])


def test_the_kind_follows_the_model() -> None:
    for name in ("gpt2", "Llama-2-7b", "t5-small", "bert-base-multilingual-cased"):
        like = _own(name)
        assert kind_like(subgraft.learn_vocabulary(TEXT, size=700, like=like)) == kind_like(like)
    assert kind_like(subgraft.learn_vocabulary(TEXT, size=700)) == "unigram"
