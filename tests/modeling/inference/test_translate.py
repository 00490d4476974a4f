"""Translations: shared sources, one line each, their limits and probabilities."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from transformers import PreTrainedModel

from subgraft.config.corpora import Languages
from subgraft.evaluation.metrics.calibration import inference_calibration
from subgraft.modeling.inference.search import MARGIN, LengthLimit, piece_bytes
from subgraft.modeling.inference.translate import BeamCache, Translator
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import (
    SHAPE,
    build_marian,
    english,
    english_tokenizer,
    generated,
    german,
    german_tokenizer,
    marian,
    mbart,
    multilingual_tokenizer,
    output_bias,
    sequence_format,
)


@pytest.mark.parametrize("build", [marian, mbart])
@pytest.mark.parametrize("beam", [1, 4])
def test_sharing_the_source_changes_no_output(build: Callable[[], PreTrainedModel], beam: int) -> None:
    model = build()
    with torch.no_grad():  # an untrained model hardly looks at its source
        for name, parameter in model.named_parameters():
            if "encoder_attn." in name or "encoder.layers" in name:
                parameter.mul_(12)
    tokenizer = english_tokenizer() if model.config.model_type == "marian" else multilingual_tokenizer()
    encoded = [[*tokenizer.encode(text)[:30], tokenizer.special["eos"]] for text in english(8)]
    longest = max(map(len, encoded))
    padding = tokenizer.special["pad"]
    sources = torch.tensor([ids + [padding] * (longest - len(ids)) for ids in encoded])
    settings = {"num_beams": beam, "max_length": 24, "decoder_start_token_id": padding, "do_sample": False}
    inputs = {"input_ids": sources, "attention_mask": (sources != padding).long()}
    expected = generated(model, **inputs, **settings)
    assert len({tuple(output.tolist()) for output in expected}) > 1, "the outputs differ from sentence to sentence"
    assert torch.equal(generated(model, **inputs, **settings, past_key_values=BeamCache()), expected)


def test_a_translation_is_one_line_whatever_it_spells() -> None:
    source, target = english_tokenizer(), learn(german(), kind="unigram", size=350, byte_fallback=True)
    model = build_marian(source, target, seed=1, **SHAPE)
    output_bias(model)[0, target.byte_ids[ord("\n")]] = 1e3
    form = sequence_format({"model_type": "marian"}, source, target, Languages(source="en", target="de"))
    translate = Translator(model, source, target, form, beam=1, max_length_ratio=1.0, max_positions=20)
    assert all("\n" not in text for text in translate(english(2)))
    assert all("\n" not in output.text for output in translate.with_probabilities(english(2)))


SOURCES = ["thankful garden", "the garden and the thankful teacher and the house in the garden"]


def test_a_text_has_the_bytes_of_its_pieces() -> None:
    tokenizer = german_tokenizer()
    lengths = piece_bytes(tokenizer)
    text = "der garten und der dankbare"
    tokens = tokenizer.encode(text)
    assert tokenizer.decode(tokens) == text
    assert int(lengths[tokens].sum()) == len(text.encode()) + 1, "the space before the first word counts"


def test_every_beam_is_held_to_the_limit_of_its_own_source() -> None:
    limit = LengthLimit(torch.tensor([1, 10]), ["x" * 10, "x" * 40], ratio=1.0)
    outputs = torch.ones((4, (MARGIN + 10) // 10), dtype=torch.long)
    outputs[1] = 0
    assert limit(outputs, None).tolist() == [True, False, False, False]


def test_a_row_that_is_not_a_piece_counts_as_one() -> None:
    """Published tables have more rows than there are pieces, and a model may choose one."""
    limit = LengthLimit(torch.tensor([5, 1]), ["x"], ratio=1.0)
    assert limit(torch.tensor([[0, 7, 9]]), None).tolist() == [False]
    assert limit(torch.full((1, MARGIN + 1), 9), None).tolist() == [True]


@pytest.mark.parametrize("beam", [1, 3])
def test_an_endless_output_is_cut_by_bytes_and_counted(beam: int) -> None:
    source, target = english_tokenizer(), german_tokenizer()
    model = marian()
    longest = max(range(len(target)), key=lambda i: int(piece_bytes(target)[i]))
    output_bias(model)[0, longest] = 1e3
    form = sequence_format({"model_type": "marian"}, source, target, Languages(source="en", target="de"))
    settings = {"beam": beam, "max_length_ratio": 0.5, "max_positions": SHAPE["max_positions"]}
    translate = Translator(model, source, target, form, **settings)
    outputs = translate(SOURCES)
    assert translate.unfinished == len(SOURCES)
    piece = int(piece_bytes(target)[longest])
    for text, output in zip(SOURCES, outputs, strict=True):
        limit = 0.5 * len(text.encode()) + MARGIN
        assert limit - piece <= len(output.encode()) < limit + piece
    output_bias(model)[0, target.special["eos"]] = 1e4
    assert translate(SOURCES) == ["", ""]
    assert translate.unfinished == 0


LANGUAGES = Languages(source="en", target="de")


def translator(family: str, beam: int) -> tuple[Translator, PreTrainedModel, Tokenizer]:
    """A translator with its model and target tokenizer; of the Marian some outputs end of themselves."""
    many = multilingual_tokenizer()
    source, target = (many, many) if family == "mbart" else (english_tokenizer(), german_tokenizer())
    model = mbart(3) if family == "mbart" else marian(3)
    if family == "marian":
        output_bias(model)[0, target.special["eos"]] += 1.5
    form = sequence_format({"model_type": family}, source, target, LANGUAGES)
    made = Translator(
        model, source, target, form, beam=beam, max_length_ratio=1.0, max_positions=SHAPE["max_positions"]
    )
    return made, model, target


@pytest.mark.parametrize("family", ["marian", "mbart"])
@pytest.mark.parametrize("beam", [1, 3])
def test_probabilities_are_those_of_the_model_token_by_token(family: str, beam: int) -> None:
    translate, model, target = translator(family, beam)
    source = english_tokenizer() if family == "marian" else multilingual_tokenizer()
    form = sequence_format({"model_type": family}, source, target, LANGUAGES)
    texts = english(7, seed=5)
    outputs = translate.with_probabilities(texts, batch_size=3)
    assert sum(len(output.tokens) for output in outputs) > 20
    for text, output in zip(texts, outputs, strict=True):
        assert len(output.tokens) == len(output.probabilities)
        assert not {target.special["eos"], target.special["pad"]} & set(output.tokens)
        encoded = torch.tensor([[*source.encode(text), *form.source_ending]])
        read = [form.start]
        for token, probability in zip(output.tokens, output.probabilities, strict=True):
            with torch.no_grad():
                logits = model(input_ids=encoded, decoder_input_ids=torch.tensor([read])).logits[0, -1]
            expected = logits.softmax(0)
            assert probability == pytest.approx(float(expected[token]), rel=1e-4)
            if beam == 1:
                assert probability == pytest.approx(float(expected.max()), rel=1e-4), "the likeliest"
            read.append(token)


def test_texts_and_cuts_are_those_of_plain_translation() -> None:
    translate, _, target = translator("marian", 2)
    texts = english(7, seed=5)
    plain, unfinished = translate(texts, batch_size=3), translate.unfinished
    outputs = translate.with_probabilities(texts, batch_size=3)
    assert [output.text for output in outputs] == plain
    assert [target.decode(output.tokens) for output in outputs] == plain
    assert translate.unfinished == unfinished


def test_calibration_of_a_model_follows_from_its_outputs() -> None:
    translate, _, target = translator("marian", 1)
    outputs = translate.with_probabilities(english(7, seed=5))
    tokens, sure = ([getattr(output, name) for output in outputs] for name in ("tokens", "probabilities"))
    count = sum(map(len, tokens))
    doubt = sum(1 - p for row in sure for p in row) / count
    # Against its own outputs the model is always right, and what is missing to certainty is its error.
    own = inference_calibration(tokens, sure, tokens)
    assert own is not None
    assert (own.accuracy, own.tokens) == (1, count)
    assert own.error == pytest.approx(doubt)
    real = inference_calibration(tokens, sure, target.encode_batch(german(7, seed=5)))
    assert real is not None
    assert real.accuracy < 1
    gaps = [b.count * abs(b.accuracy - b.confidence) for b in real.bins if b.accuracy is not None and b.confidence]
    assert real.error == pytest.approx(sum(gaps) / count)
