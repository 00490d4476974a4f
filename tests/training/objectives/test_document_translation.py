"""Blocks of pairs: both sides in the form of mBART's pretraining, within one document, pair by pair."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.training import FinetuneSettings
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.training.objectives.compute.document_translation import DevDocuments, PairedDocuments, TaskDocuments
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from subgraft.training.objectives.translation import DocumentTranslationSettings
from toys import SHAPE, build_mbart, english, german, multilingual_tokenizer

LANGUAGES = Languages(source="en", target="de")
DOCUMENTS = [(english(7, seed), german(7, 50 + seed)) for seed in range(8)]
TRAINING = FinetuneSettings(
    max_steps=1, batch_size=300, max_length=70, learning_rate=1e-3, warmup_steps=1, dev_sentences=9
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("documents")
    for split, chosen in (("train", DOCUMENTS), ("dev", DOCUMENTS[:3])):
        rows = [{"doc": f"d{n}", "en": en, "de": de} for n, (en, de) in enumerate(chosen)]
        (folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    fields: dict[str, dict[str, str]] = {"en": {}, "de": {}}
    source = CorpusSource.model_validate({"records": {"folder": str(folder), "fields": fields, "document": "doc"}})
    return build(source, LANGUAGES, Cleaning(deduplicate=False, drop_held_out=False), folder / "out")


@cache
def bundle() -> Bundle:
    tokenizer = multilingual_tokenizer()
    return Bundle(build_mbart(tokenizer, seed=1, **SHAPE | {"max_positions": 120}).eval(), tokenizer, tokenizer)


def task(corpus: Corpus, training: FinetuneSettings = TRAINING, tokens: int = 40) -> TaskDocuments:
    request = ObjectiveInputs(bundle(), corpus, LANGUAGES, training, 1)
    return TaskDocuments(DocumentTranslationSettings(block_tokens=tokens), request, training)


def sentences(row: list[int], code: str) -> list[str]:
    """The sentences of a side, which ends with </s> and the one code of its language."""
    tokenizer = multilingual_tokenizer()
    end, codes = tokenizer.special["eos"], set(tokenizer.languages.values())
    assert row[-2:] == [end, tokenizer.languages[code]] and sum(token in codes for token in row) == 1
    places = [-1, *(place for place, token in enumerate(row) if token == end)]
    return [tokenizer.decode(row[begin + 1 : stop]) for begin, stop in itertools.pairwise(places)]


def test_blocks_are_consecutive_pairs_of_one_document(corpus: Corpus) -> None:
    """Every pair is in one block, next to its translation; a block is a stretch of one document on both sides."""
    data, pairs = task(corpus), Counter[tuple[str, str]]()
    for index in range(len(data.lengths)):
        example = data._examples.example(index, 0)
        source, target = sentences(example.source, "en_XX"), sentences(example.target, "de_DE")
        assert len(source) == len(target)
        assert example.start == example.target[-1]
        assert any(
            (source, target) == (en[at : at + len(source)], de[at : at + len(source)])
            for en, de in DOCUMENTS
            for at in range(len(en))
        )
        assert len(example.source) <= 40 or len(source) == 1
        assert len(example.target) <= 70
        pairs.update(zip(source, target, strict=True))
    assert pairs == Counter(pair for en, de in DOCUMENTS for pair in zip(en, de, strict=True))


def test_a_block_takes_the_next_pair_if_it_fits_on_both_sides(corpus: Corpus) -> None:
    data, tokenizer = task(corpus), multilingual_tokenizer()
    bounds, starts = data._examples.bounds.tolist(), {7 * number for number in range(9)}  # type: ignore[attr-defined]
    lengths = [tokenizer.encode_batch([text for document in DOCUMENTS for text in document[side]]) for side in (0, 1)]
    for begin, end in itertools.pairwise(bounds):
        if end not in starts:
            longer = [sum(len(ids) + 1 for ids in side[begin : end + 1]) + 1 for side in lengths]
            assert longer[0] > 40 or longer[1] > 70


def test_costs_are_tokens_or_characters_of_the_longer_side(corpus: Corpus) -> None:
    data = task(corpus)
    examples = [data._examples.example(index, 0) for index in range(len(data.lengths))]
    assert data.lengths.tolist() == [max(len(each.source), len(each.target)) for each in examples]
    in_characters = task(corpus, TRAINING.model_copy(update={"batch_unit": "characters"}))
    whole = sum(max(sum(map(len, en)), sum(map(len, de))) for en, de in DOCUMENTS)
    assert whole <= in_characters.lengths.sum() <= 1.2 * whole


def test_a_sentence_that_is_longer_than_a_block_is_cut_and_counted(corpus: Corpus) -> None:
    short = task(corpus, tokens=9)
    tokens = multilingual_tokenizer().encode_batch([text for en, _ in DOCUMENTS for text in en])
    assert short.truncated == sum(len(ids) > 7 for ids in tokens) > 0 == task(corpus).truncated


def test_dev_documents_are_those_that_begin_among_the_first_sentences(corpus: Corpus) -> None:
    documents = PairedDocuments.of(corpus, "dev", 9)
    assert documents.starts.tolist() == [0, 7, 14] and len(documents.pairs) == 14
    scores = DevDocuments(bundle(), ObjectiveInputs(bundle(), corpus, LANGUAGES, TRAINING, 1), TRAINING, 40)()
    assert set(scores) == {"bits_per_character", "bleu", "chrf"}
    assert 0 < scores["bits_per_character"] < 20 and np.isfinite(list(scores.values())).all()


def test_a_corpus_without_documents_is_refused(tmp_path: Path) -> None:
    for language, lines in (("en", english(5)), ("de", german(5))):
        (tmp_path / f"train.{language}").write_text("".join(f"{line}\n" for line in lines))
    plain = build(CorpusSource(folder=str(tmp_path)), LANGUAGES, Cleaning(), tmp_path / "out")
    with pytest.raises(UserError, match="a corpus without documents"):
        task(plain)
