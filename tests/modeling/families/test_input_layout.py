"""Texts and pairs as models with classifying heads read them: the ids of transformers' own tokenizers."""

from __future__ import annotations

from pathlib import Path

import pytest
import transformers

from published import CHECKPOINTS, english
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import InputLayout, family_of
from subgraft.modeling.families.input_layout import DEFAULT_MAX_LENGTH
from toys import german_tokenizer

PAIRED = (
    "bert-base-multilingual-cased",
    "distilbert-base-multilingual-cased",
    "electra-small-generator",
    "deberta-v3-base",
    "roberta-base",
    "xlm-roberta-base",
    "bart-base",
    "mbart-large-cc25",
    "t5-small",
)
SINGLE = ("gpt2", "Llama-2-7b", "Mistral-7B-v0.1", "gemma-2b", "Qwen2.5-0.5B", "opt-125m", "pythia-70m")
FIRST, SECOND = max(english(40), key=len), min(english(40), key=len)


def bundle_of(name: str, place: Path) -> tuple[Bundle, InputLayout, transformers.PreTrainedTokenizerBase]:
    checkpoint = CHECKPOINTS[name]
    checkpoint.publish(place)
    bundle = Bundle.load(place)
    theirs = transformers.AutoTokenizer.from_pretrained(place, **checkpoint.settings)
    return bundle, bundle.input_layout(checkpoint.languages), theirs


@pytest.mark.parametrize("name", PAIRED)
def test_pairs_have_the_ids_of_transformers(name: str, tmp_path: Path) -> None:
    bundle, layout, theirs = bundle_of(name, tmp_path)
    first, second = bundle.encoder.encode_batch([FIRST, SECOND])
    assert layout.single(first).ids == theirs(FIRST)["input_ids"]
    for one, other in ((first, second), (second, first), (first, first)):
        texts = [FIRST if each is first else SECOND for each in (one, other)]
        for longest in range(len(layout.begin + layout.separator + layout.end), 40):
            laid = layout.pair(one, other, longest)
            encoded = theirs(*texts, max_length=longest, truncation=True, return_token_type_ids=True)
            assert laid.ids == encoded["input_ids"], longest
            assert not layout.segments or laid.types == encoded["token_type_ids"]
            places = zip((one, other), laid.starts, laid.lengths, strict=True)
            assert all(laid.ids[start : start + length] == ids[:length] for ids, start, length in places)
            assert len(laid.types) == len(laid.ids) <= longest


@pytest.mark.parametrize("name", SINGLE)
def test_a_decoder_reads_texts_as_its_tokenizer_writes_them(name: str, tmp_path: Path) -> None:
    bundle, layout, theirs = bundle_of(name, tmp_path)
    first, second = bundle.encoder.encode_batch([FIRST, SECOND])
    assert layout.single(first).ids == theirs(FIRST)["input_ids"]
    laid = layout.pair(first, second)
    assert laid.ids == [*layout.begin, *first, bundle.decoder.special["eos"], *second]
    assert laid.ids[-1] == second[-1]  # which the head reads
    assert set(laid.types) == {0} and layout.end == ()


def test_a_vocabulary_of_ones_own_gets_its_own_ids(tmp_path: Path) -> None:
    """The layout is looked up by role: a model of another vocabulary need not be loaded for it."""
    tokenizer = german_tokenizer()
    layout = family_of({"model_type": "t5"}).input_layout({"model_type": "t5"}, tokenizer, None)
    assert layout == InputLayout(
        (), (tokenizer.special["eos"],), (tokenizer.special["eos"],), False, DEFAULT_MAX_LENGTH
    )


def test_what_does_not_fit_is_cut() -> None:
    layout = InputLayout((1,), (2,), (2,), True, 10)
    assert layout.room(1) == 8 and layout.room(2) == 7 and layout.room(2, 5) == 2 and layout.room(2, 2) == 0
    assert layout.single(range(10, 30)).ids == [1, *range(10, 18), 2]
    assert layout.pair([10, 11], range(20, 40)).ids == [1, 10, 11, 2, *range(20, 25), 2]
    assert layout.pair([10, 11], [20]).types == [0, 0, 0, 0, 1, 1]
    empty = layout.pair([], [20])
    assert empty.ids == [1, 2, 20, 2] and empty.starts == (1, 2) and empty.lengths == (0, 1)
