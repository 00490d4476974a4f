"""Spans of two segmentations: what they cover, which are left out, and that nothing is lost between them."""

from __future__ import annotations

import numpy as np
import pytest

from new_vocabularies import LANGUAGES, TEXTS, new_vocabulary, upstream
from subgraft.config.training import TrainingSettings
from subgraft.embeddings.learned_rows.likelihood_matching import SpanPairs
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families.encoder_only import BERT2BERT
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.embedding_view import IGNORED
from toys import german, german_tokenizer

TRAINING = TrainingSettings(epochs=1, batch_size=400, max_length=60, learning_rate=0.01, warmup_steps=2)


def unseen(bundle: Bundle, target: Tokenizer) -> list[int]:
    return [token for entry, token in target.ids.items() if entry not in bundle.decoder.ids]


@pytest.mark.parametrize("family", ["marian", "mbart", BERT2BERT])
def test_spans_have_the_same_text_in_both_segmentations_and_leave_out_nothing(family: str) -> None:
    bundle, target = upstream(family), new_vocabulary(family, "decoder")
    pairs = SpanPairs(TEXTS[:30], bundle, "decoder", target, LANGUAGES, TRAINING, unseen(bundle, target))
    batch = pairs.batch(np.arange(8), 0)
    flat = [read.labels[read.labels != IGNORED].tolist() for read in (batch.teacher, batch.student)]
    assert [len(labels) for labels in flat] == [int(batch.before.sum()), int(batch.after.sum())]
    assert batch.before.min() >= 1 and batch.after.min() >= 1
    ends = one = two = 0
    for before, after, inner in zip(
        *(column.tolist() for column in (batch.before, batch.after, batch.inner)), strict=True
    ):
        first, second = flat[0][one : one + before], flat[1][two : two + after]
        assert bundle.decoder.decode(first) == target.decode(second)
        ends += target.special["eos"] in second
        assert inner == (target.special["eos"] not in second and second[0] not in target.languages.values())
        one, two = one + before, two + after
    assert ends == 8
    assert batch.known.all() and batch.counts == {"matching": len(batch.before)}
    assert (batch.before > batch.after).any(), "some spans are one new token"


def test_spans_are_the_smallest() -> None:
    """Of every pair of tokens within a span, one or the other segmentation does not end where the first one does."""
    bundle, target = upstream("marian"), new_vocabulary("marian", "decoder")
    pairs = SpanPairs(TEXTS[:30], bundle, "decoder", target, LANGUAGES, TRAINING, unseen(bundle, target))
    batch = pairs.batch(np.arange(8), 0)
    assert not ((batch.before > 1) & (batch.after > 1) & ~batch.inner).any()
    one = two = 0
    flat = [read.labels[read.labels != IGNORED].tolist() for read in (batch.teacher, batch.student)]
    for before, after in zip(batch.before.tolist(), batch.after.tolist(), strict=True):
        heads = [
            {tokenizer.decode(labels[at : at + i]) for i in range(1, length)} - {""}
            for tokenizer, labels, at, length in ((bundle.decoder, flat[0], one, before), (target, flat[1], two, after))
        ]
        assert heads[0].isdisjoint(heads[1])
        one, two = one + before, two + after


def test_what_the_teacher_cannot_spell_is_left_out_and_counted() -> None:
    bundle = upstream("marian")
    target = learn([*german(200, 7), *["☃ Straße"] * 40], kind="unigram", size=150, character_coverage=1.0)
    texts = [(english, f"{text} ☃ {text}") for english, text in TEXTS[:6]]
    pairs = SpanPairs(texts, bundle, "decoder", target, LANGUAGES, TRAINING, unseen(bundle, target))
    batch = pairs.batch(np.arange(len(pairs)), 0)
    spans, unknown = pairs.spans
    assert (spans, unknown) == (len(batch.known), len(pairs)) and len(pairs) > 0
    assert batch.counts == {"matching": spans - unknown}
    labels = batch.teacher.labels[batch.teacher.labels != IGNORED]
    starts = (batch.before.cumsum(0) - batch.before).tolist()
    read = [labels[at : at + length].tolist() for at, length in zip(starts, batch.before.tolist(), strict=True)]
    unk = german_tokenizer().special["unk"]
    assert [unk not in span for span in read] == batch.known.tolist()
