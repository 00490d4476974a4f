"""A family whose targets begin with a label of their own: predicted, forced, and no part of the sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from subgraft.config.initialisers import ResegmentationSettings
from subgraft.embeddings.generators.simulation import Simulator
from subgraft.modeling.families import SequenceFormat
from subgraft.modeling.inference.translate import Translator
from subgraft.training.objectives.compute.seq2seq import Example, Seq2SeqBatch, Seq2SeqView
from subgraft.training.objectives.compute.translation import Translation
from toys import english, german, mbart, multilingual_tokenizer

TOKENIZER = multilingual_tokenizer()
END, CODE = TOKENIZER.special["eos"], TOKENIZER.languages["de_DE"]
FORM = SequenceFormat((END,), (END,), END, (TOKENIZER.languages["en_XX"],), CODE)
PAIRS = list(zip(english(12), german(12), strict=True))


def test_the_beginning_is_a_label_and_the_sentence_comes_behind_it() -> None:
    example = Example.of([30, 31], [40, 41, 42], FORM)
    assert example.target == [CODE, 40, 41, 42, END] and example.start == END
    assert (example.target_begins, example.target_body) == (1, 3)
    assert FORM.around == 2 and replace(FORM, target_beginning=None).target_begins == 0


def test_a_generators_view_changes_the_sentence_alone() -> None:
    examples = Translation(PAIRS, TOKENIZER, TOKENIZER, FORM, max_length=40)
    view = Seq2SeqView(examples, "decoder", (1, 1))
    example = examples.example(0, 0)
    body = view.body(example)
    assert body.tokens == TOKENIZER.encode(PAIRS[0][1]) and (body.start, body.around) == (1, 2)
    changed = view.rebuild(example, [50, 51])
    assert changed.target == [CODE, 50, 51, END] and changed.target_body == 2
    batch = Simulator(view, TOKENIZER, ResegmentationSettings(merge_rate=0.4, split_rate=0.3), 10, 1).batch(
        np.arange(12), 0
    )
    assert isinstance(batch.resegmented, Seq2SeqBatch)
    assert (batch.resegmented.labels[:, 0] == CODE).all() and (batch.resegmented.decoder_input_ids[:, 1] == CODE).all()
    # Where spans say that text is, neither the code nor the end is; and all the text is there.
    spans = batch.spans.original
    labels = batch.original.labels[spans[:, 0], spans[:, 1]]
    assert not {CODE, END} & set(labels.tolist())


def test_outputs_begin_with_it_and_are_returned_without_it() -> None:
    model = mbart()
    options = {"beam": 2, "max_length_ratio": 1.0, "max_positions": 40}
    translate = Translator(model, TOKENIZER, TOKENIZER, FORM, **options)  # type: ignore[arg-type]
    texts = english(3)
    outputs = translate.with_probabilities(texts)
    assert [output.text for output in outputs] == translate(texts)
    for text, output in zip(texts, outputs, strict=True):
        body = output.tokens
        assert len(body) == len(output.probabilities) > 0
        source = torch.tensor([[*FORM.source_beginning, *TOKENIZER.encode(text), END]])
        read = torch.tensor([[END, CODE, *body[:-1]]])
        logits = model(source, decoder_input_ids=read).logits[0, 1:].log_softmax(-1)
        expected = logits[torch.arange(len(body)), torch.tensor(body)].exp()
        torch.testing.assert_close(torch.tensor(output.probabilities), expected, rtol=1e-4, atol=1e-5)
