"""A vocabulary that makes a text grow without bound is refused: by what its steps can do, or by what they did."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from sentencepiece import SentencePieceNormalizer, sentencepiece_model_pb2
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from subgraft.base.errors import UserError
from subgraft.base.security import text_growth as growth
from subgraft.base.security.text_growth import Growth, require_bounded, text_growth
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# The key of its steps in a component that is a sequence of them.
STEPS = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders"}
DOUBLING = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
BETWEEN = {"type": "Replace", "pattern": {"Regex": "x*"}, "content": "a"}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
ISOLATED = {"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": False}
MARKS = [{"type": "Metaspace", "replacement": mark, "prepend_scheme": "always", "split": False} for mark in "▁_"]
SLOW = {**ISOLATED, "pattern": {"Regex": "(?=(x+x+)+y)z"}}


def written(directory: Path, component: str = "normalizer", steps: Any = (), **others: Any) -> Path:
    """A directory with a tokenizer.json whose component has these steps, in sequences one inside of the other."""
    sequence: dict[str, Any] | None = None
    for step in reversed(steps[:10]):
        inner = [step, *steps[10:]] if sequence is None else [step, sequence]
        sequence = {"type": "Sequence", STEPS[component]: inner}
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "ß": 3}, "merges": ["a b"]}
    whole = {"version": "1.0", "added_tokens": [], "model": model, component: sequence, **others}
    (directory / "tokenizer.json").write_text(json.dumps(whole))
    return directory


@pytest.mark.parametrize(
    ("component", "steps"),
    [
        ("normalizer", [DOUBLING] * 30),
        ("normalizer", [BETWEEN] * 14),
        ("normalizer", [{"type": "ByteLevel"}] * 14),
        ("normalizer", [{"type": "Prepend", "prepend": "a" * 9000}]),
        ("normalizer", [{"type": "Lowercase"}] * 100),
        ("pre_tokenizer", [BYTES] * 30),
        ("pre_tokenizer", [ISOLATED, MARKS[0], ISOLATED, MARKS[1]] * 8),
        ("pre_tokenizer", [SLOW]),
        ("decoder", [DOUBLING] * 5),
        ("decoder", [BETWEEN] * 30),
        ("decoder", [{"type": "BPEDecoder", "suffix": ""}] * 30),
        ("decoder", [{"type": "WordPiece", "prefix": "##", "cleanup": False}] * 60),
    ],
)
def test_a_component_that_makes_too_much_is_refused_where_the_vocabulary_is_read(
    component: str, steps: Any, tmp_path: Path
) -> None:
    place = r"tokenizer\.json: this vocabulary cannot be used: "
    with pytest.raises(UserError, match=place + f"(its {component}|.*and {component}|its regular expressions)"):
        Tokenizer.load(written(tmp_path, component, steps))


def test_a_table_of_sentencepiece_may_not_make_a_book_of_a_letter(tmp_path: Path) -> None:
    model = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    named = SentencePieceNormalizer(rule_name="nmt_nfkc").serialized_model_proto()
    table = model.FromString(named).normalizer_spec.precompiled_charsmap
    model.normalizer_spec.precompiled_charsmap = table[:-1] + b"a" * 20_000 + b"\0"
    model.trainer_spec.model_type = 1
    model.pieces.add(piece="<unk>", type=2)
    model.pieces.add(piece="a", score=-1.0)
    (tmp_path / "spiece.model").write_bytes(model.SerializeToString())
    with pytest.raises(UserError, match=r"(?s)its normalizer can make.*SUBGRAFT_MAX_TEXT_GROWTH"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize(
    ("others", "complaint"),
    [
        ({"normalizer": {"type": "Prepend", "prepend": "a" * (1 << 20)}}, "SUBGRAFT_MAX_TOKENIZER_PART"),
        ({"post_processor": {"type": "RobertaProcessing", "sep": ["a" * (1 << 20), 0]}}, "SUBGRAFT_MAX_TOKENIZER_PART"),
        ({"model": {"type": "BPE", "vocab": {"a" * 5000: 0}, "merges": []}}, "SUBGRAFT_MAX_PIECE_LENGTH"),
        ({"model": {"type": "BPE", "vocab": {}, "merges": [], "end_of_word_suffix": "a" * 5000}}, "PIECE_LENGTH"),
        ({"added_tokens": [{"id": i, "content": str(i)} for i in range(140_000)]}, "SUBGRAFT_MAX_ADDED_TOKENS"),
        (
            {
                "normalizer": {"type": "Sequence", "normalizers": [DOUBLING] * 12},
                "added_tokens": [{"id": i, "content": f"{i}" + "a" * 4000} for i in range(5)],
            },
            "bytes of its added tokens",
        ),
        (
            {"model": {"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "a", "max_input_chars_per_word": 10**6}},
            "max_input_chars_per_word",
        ),
    ],
)
def test_parts_that_are_too_large_are_refused(others: Any, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"(?s){complaint}"):
        Tokenizer.load(written(tmp_path, **others))


def test_a_text_that_grows_all_the_same_is_refused_short_or_long(tmp_path: Path) -> None:
    loaded = Tokenizer.load(written(tmp_path, steps=[DOUBLING] * 12))
    assert loaded.encode("b" * 50_000 + "ab") == [1] * 50_000 + [0] * 4095 + [2]
    with pytest.raises(UserError, match="40,960 tokens by this vocabulary"):
        loaded.encode("a" * 10)
    with pytest.raises(UserError, match="40,960 tokens by this vocabulary"):
        loaded.encode_with_ends(["b", "a" * 10])
    with pytest.raises(UserError, match=r"(?s)100,000 characters becomes .* and more .* SUBGRAFT_MAX_TOKENS"):
        loaded.encode("a" * 100_000)


def test_texts_cut_a_few_at_a_time_are_cut_as_all_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = Tokenizer.load(written(tmp_path, steps=[{"type": "NFKC"}]))
    texts = ["ab" * count for count in range(40)] + ["ßa", "ab" * 3000]
    expected = loaded.encode_batch(texts), loaded.encode_with_ends(texts)
    monkeypatch.setattr(growth, "MAX_BATCH_BYTES", 1 << 10)
    assert (loaded.encode_batch(texts), loaded.encode_with_ends(texts)) == expected
    assert list(loaded.guard.checked(iter(texts))) == texts
    assert len(list(loaded.guard.batches(texts))) > 10


def test_every_step_that_tokenizers_has_is_known() -> None:
    known = (("normalizer", normalizers), ("pre_tokenizer", pre_tokenizers), ("decoder", decoders))
    for component, module in known:
        no_steps = {"Sequence", "Normalizer", "PreTokenizer", "Decoder", "DecodeStream"}
        result = {name for name, kind in inspect.getmembers(module, inspect.isclass)} - no_steps
        assert result == set(growth._STEPS[component])


def test_no_character_grows_by_more_than_its_step_may() -> None:
    """Those that grow most of all of Unicode, by whatever step: found over all of it."""
    steps = [normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD(), normalizers.Lowercase()]
    for step in [*steps, normalizers.BertNormalizer(strip_accents=True), normalizers.Nmt(), normalizers.ByteLevel()]:
        backend = tokenizers.Tokenizer(models.BPE())
        backend.normalizer = step
        bound = text_growth(json.loads(backend.to_str()))
        for character in "\ufdfa\u0390\U0001d160\u0130\uac01\u4e2d\u00df\u1f82\u023a":
            assert len(step.normalize_str(character).encode()) <= bound.of(len(character.encode()))


def test_what_published_vocabularies_do_stays_far_below_the_limit() -> None:
    """ALBERT's steps, the longest chain of any that is known; and a pattern as GPT-4o's."""
    named = SentencePieceNormalizer(rule_name="nmt_nfkc").serialized_model_proto()
    model = sentencepiece_model_pb2.ModelProto.FromString(named)  # type: ignore[attr-defined]
    backend = tokenizers.Tokenizer(models.BPE())
    backend.normalizer = normalizers.Sequence(
        [
            normalizers.Replace("``", '"'),
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
            normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    letters = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{M}]*[\p{Ll}\p{Lm}]+(?i:'s|'t)?|\p{N}{1,3}|\s*[\r\n]+|\s+(?!\S)|\s+"
    split = pre_tokenizers.Split(Regex(letters), "isolated")
    backend.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.Metaspace()])
    specification = json.loads(backend.to_str())
    require_bounded(specification)
    growth.require_quick_patterns(specification, backend)
    assert text_growth(specification) == Growth(11 * 1.5 * 33 * 4)
