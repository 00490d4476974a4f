"""Documents are translated in blocks that end at the language code, not at the ends of their sentences."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.inference.search import MARGIN, output_limit
from subgraft.modeling.inference.translate_documents import BlockTranslator, sentences_of
from subgraft.training.objectives.compute.document_translation import DocumentTranslation, PairedDocuments, Vocabularies
from subgraft.training.objectives.compute.seq2seq import Seq2SeqData, Seq2SeqLoss
from toys import SHAPE, bart, build_mbart, english, german, masking_tokenizer, multilingual_tokenizer, output_bias

LANGUAGES = Languages(source="en", target="de")
PAIRS = list(zip(english(9, 5), german(9, 6), strict=True))
STARTS = np.array([0, 4, 9])
BLOCK = 46


def untrained(**shape: Any) -> Bundle:
    tokenizer = multilingual_tokenizer()
    return Bundle(build_mbart(tokenizer, seed=1, **SHAPE | {"max_positions": 90} | shape).eval(), tokenizer, tokenizer)


def translator(bundle: Bundle, beam: int = 1, ratio: float = 3.0) -> BlockTranslator:
    return BlockTranslator(bundle, bundle.sequence_format(LANGUAGES), beam=beam, max_length_ratio=ratio)


def examples_of(bundle: Bundle) -> DocumentTranslation:
    form = bundle.sequence_format(LANGUAGES)
    separator = (bundle.decoder.special["eos"],)
    vocabularies = Vocabularies(bundle.encoder, bundle.decoder, form, separator)
    return DocumentTranslation(PairedDocuments(PAIRS, STARTS), vocabularies, (BLOCK, 90))


@cache
def overfitted() -> Bundle:
    """A model that has learnt the two documents by heart."""
    bundle = untrained(d_model=48, ffn_dim=96, dropout=0.0)
    examples = examples_of(bundle)
    batch = Seq2SeqData(examples, *bundle.padding).batch(np.arange(len(examples)), 0)
    loss, optimizer = Seq2SeqLoss(bundle.model), torch.optim.Adam(bundle.model.parameters(), lr=4e-3)
    for _ in range(250):
        optimizer.zero_grad()
        (loss(batch)["loss"] / batch.counts["loss"]).backward()
        optimizer.step()
    return bundle


@pytest.mark.parametrize("beam", [1, 3])
def test_a_learnt_document_is_written_sentence_by_sentence_to_its_end(beam: int) -> None:
    """In blocks of training's form; no sentence is lost, joined or added, and no output is cut."""
    bundle = overfitted()
    documents = [[source for source, _ in PAIRS[:4]], [source for source, _ in PAIRS[4:]]]
    translate = translator(bundle, beam)
    bounds = examples_of(bundle).bounds.tolist()
    ours = [block.count("\n") + 1 for document in documents for block in translate.blocks(document, BLOCK)]
    assert ours == np.diff(bounds).tolist() and len(ours) > 2
    written = translate.translate(documents, BLOCK, batch_size=2)
    assert written == [[target for _, target in PAIRS[:4]], [target for _, target in PAIRS[4:]]]
    assert translate.unfinished == 0


def test_inputs_are_those_of_training() -> None:
    bundle = untrained()
    examples, translate = examples_of(bundle), translator(bundle)
    for index, (begin, end) in enumerate(pairwise(examples.bounds.tolist())):
        ((ids,), _) = translate._encode_sources(["\n".join(source for source, _ in PAIRS[begin:end])])
        assert ids == examples.example(index, 0).source
    texts = ["\n".join(source for source, _ in PAIRS[begin:end]) for begin, end in zip([0, 2], [2, 4], strict=True)]
    encoded, spoken = translate._encode_sources(texts)
    end, code = bundle.encoder.special["eos"], bundle.encoder.languages["en_XX"]
    for ids, sources in zip(encoded, (PAIRS[:2], PAIRS[2:4]), strict=True):
        first, second = bundle.encoder.encode_batch([source for source, _ in sources])
        assert ids == [*first, end, *second, end, code]
    assert spoken == [0, 1]


def test_the_end_of_a_sentence_ends_no_output_and_the_code_does() -> None:
    bundle = untrained()
    end, code = bundle.decoder.special["eos"], bundle.decoder.languages["de_DE"]
    text = "\n".join(source for source, _ in PAIRS[:3])
    bias = output_bias(bundle.model)
    bias[..., end] = 50.0
    translate = translator(bundle)
    (written,) = translate([text])
    assert sentences_of(written) == [""] * (len(written) + 1) and len(written) > 20 and translate.unfinished == 1
    bias[..., code] = 100.0
    assert translate([text]) == [""] and translate.unfinished == 0


def test_an_output_is_limited_by_the_bytes_of_its_block() -> None:
    """A limit of one sentence would cut every block after the first."""
    bundle = untrained(max_positions=400)
    letter = next(i for i, entry in enumerate(bundle.decoder.entries) if entry and entry.surface == "a")
    output_bias(bundle.model)[..., letter] = 50.0
    width = len(bundle.decoder.entries[letter].surface) + bundle.decoder.entries[letter].word_initial  # type: ignore[union-attr]
    text = "\n".join(source for source, _ in PAIRS[:4])
    translate = translator(bundle, ratio=1.5)
    (written,) = translate([text])
    assert len(written.replace(" ", "")) * width == pytest.approx(output_limit(text, 1.5), abs=width + 1)
    assert output_limit(text, 1.5) == pytest.approx(1.5 * len(text.encode()) + MARGIN, abs=1)


def test_a_block_has_the_sentences_that_fit_and_never_none() -> None:
    bundle = untrained()
    translate, document = translator(bundle), [source for source, _ in PAIRS]
    for tokens in (8, 30, 60):
        blocks = translate.blocks(document, tokens)
        assert [line for block in blocks for line in block.split("\n")] == document
        encoded, _ = translate._encode_sources(blocks)
        assert all(len(ids) <= tokens or "\n" not in block for ids, block in zip(encoded, blocks, strict=True))
    assert translator(bundle).translate([[], ["..."]], 20)[0] == []


def test_a_model_whose_texts_end_as_their_sentences_do_is_refused() -> None:
    tokenizer = masking_tokenizer()
    with pytest.raises(UserError, match="this bart model has no token that ends blocks"):
        bundle = Bundle(bart(), tokenizer, tokenizer)
        BlockTranslator(bundle, bundle.sequence_format(LANGUAGES), beam=1, max_length_ratio=2.0)
    fifty = untrained()
    fifty.model.config.decoder_start_token_id = fifty.decoder.special["eos"]
    with pytest.raises(UserError, match="this mbart model has no token that ends blocks"):
        translator(fifty)
