"""Probabilities of generated tokens, against those that generation itself reports."""

from __future__ import annotations

import pytest
import torch
from transformers import PreTrainedModel

from subgraft.config.corpora import Languages
from subgraft.evaluation.metrics.calibration import inference_calibration
from subgraft.modeling.inference.translate import Translator
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import (
    SHAPE,
    english,
    english_tokenizer,
    german,
    german_tokenizer,
    marian,
    mbart,
    multilingual_tokenizer,
    output_bias,
    sequence_format,
)

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
    plain, cut = translate(texts, batch_size=3), translate.cut
    outputs = translate.with_probabilities(texts, batch_size=3)
    assert [output.text for output in outputs] == plain
    assert [target.decode(output.tokens) for output in outputs] == plain
    assert translate.cut == cut


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
