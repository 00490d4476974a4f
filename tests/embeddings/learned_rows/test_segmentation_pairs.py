"""Two segmentations of a sentence: where they meet, which sentences are taken, what a batch of them holds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from new_vocabularies import LANGUAGES, TEXTS, new_vocabulary, upstream
from subgraft.config.settings_base import SideName
from subgraft.config.training import TrainingSettings
from subgraft.embeddings.learned_rows.segmentation_pairs import SegmentationPairs, agreeing_positions
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families.encoder_only import BERT2BERT
from subgraft.subwords.vocabulary.tokenizer import NO_OFFSET, Tokenizer
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.translation import Translation
from toys import german_tokenizer

SOME = TEXTS[:60]


def training(max_length: int = 40) -> TrainingSettings:
    return TrainingSettings(epochs=1, batch_size=400, max_length=max_length, learning_rate=0.01, warmup_steps=2)


def unseen(bundle: Bundle, side: SideName, target: Tokenizer) -> set[int]:
    return {token for entry, token in target.ids.items() if entry not in bundle.tokenizers[side].ids}


def test_segmentations_meet_where_both_have_read_the_same() -> None:
    assert agreeing_positions([2, 4, 7, 9], [4, 5, 9]) == [(1, 0), (3, 2)]
    assert agreeing_positions([NO_OFFSET, 3, 3], [NO_OFFSET, 3]) == [(2, 1)]


@pytest.mark.parametrize("kind", ["unigram", "bpe", "wordpiece"])
def test_a_token_ends_where_its_text_ends(kind: str) -> None:
    tokenizer, text = german_tokenizer(90, kind), "dankbarkind  Xß arzt wort."
    (ids, ends), (none, _) = tokenizer.encode_with_ends([text, ""])
    assert ids == tokenizer.encode(text)
    assert none == []
    assert ends[-1] == len(text)
    counted = [end for end in ends if end != NO_OFFSET]
    assert counted == sorted(set(counted))
    for token, end in zip(ids, ends, strict=True):
        entry = tokenizer.entries[token]
        assert entry is None or text[:end].endswith(entry.surface)
        assert (end == NO_OFFSET) == (tokenizer.pieces[token] == tokenizer.mark.value)


def test_a_special_token_that_a_text_spells_out_ends_where_its_spelling_does() -> None:
    tokenizer, text = german_tokenizer(), "arzt<s> wort"
    ((ids, ends),) = tokenizer.encode_with_ends([text])
    assert ids == tokenizer.encode(text)
    assert len(text.partition(" ")[0]) in ends and ends[-1] == len(text)


@pytest.mark.parametrize("family", ["marian", "mbart", BERT2BERT])
@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_states_that_are_compared_have_read_the_same_text(family: str, side: SideName) -> None:
    bundle, target = upstream(family), new_vocabulary(family, side)
    new = unseen(bundle, side, target)
    sentences = SegmentationPairs(SOME, bundle, side, target, LANGUAGES, training(), new)
    batch = sentences.batch(np.arange(8), 0)
    teacher, student = (
        (batch.teacher.decoder_input_ids, batch.student.decoder_input_ids)
        if side == "decoder"
        else (batch.teacher.input_ids, batch.student.input_ids)
    )
    assert batch.counts == {"distillation": len(batch.agreeing)}
    assert batch.agreeing[:, 0].unique().tolist() == list(range(8))
    begun = ended = 0
    for sentence, before, after in batch.agreeing.tolist():
        read = teacher[sentence, : before + 1].tolist(), student[sentence, : after + 1].tolist()
        assert bundle.tokenizers[side].decode(read[0]) == target.decode(read[1])
        if side == "decoder":
            assert new.intersection(read[1]), "what comes before the first new token says nothing of it"
        begun += len(read[1]) == 1 and read[1][0] == target.special.get("cls")
        ended += read[1][-1] == target.special["eos"]
    assert ended == (8 if side == "encoder" or family == "mbart" else 0)
    assert begun == (8 if (side, family) == ("encoder", BERT2BERT) else 0)
    unchanged = (batch.teacher.input_ids, batch.student.input_ids)
    if side == "decoder":
        assert (unchanged[0] == unchanged[1]).all()


@pytest.mark.parametrize("family", ["marian", "mbart", BERT2BERT])
@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_both_segmentations_are_read_as_the_model_reads_sentences(family: str, side: SideName) -> None:
    """With all the special tokens of the family around them, in batches as finetuning has them."""
    bundle, target = upstream(family), new_vocabulary(family, side)
    everything = unseen(bundle, side, target)
    after = replace(bundle, encoder=target) if side == "encoder" else replace(bundle, decoder=target)
    batch = SegmentationPairs(SOME, bundle, side, target, LANGUAGES, training(), everything).batch(np.arange(2), 0)
    for read, segmented in ((bundle, batch.teacher), (after, batch.student)):
        form = read.sequence_format(LANGUAGES)
        examples = Translation(SOME, read.encoder, read.decoder, form, 40)
        usual = [examples.example(index, 0) for index in range(len(SOME))]
        lengths = segmented.attention_mask.sum(dim=1).tolist()
        sources = [tokens[:length].tolist() for tokens, length in zip(segmented.input_ids, lengths, strict=True)]
        targets = [tokens[tokens != IGNORED].tolist() for tokens in segmented.labels]
        for source, labels, inputs in zip(sources, targets, segmented.decoder_input_ids.tolist(), strict=True):
            assert any((source, labels, inputs[0]) == (e.source, e.target, e.start) for e in usual)


def test_every_token_of_the_text_is_met_as_often_as_asked_and_no_sentence_is_taken_for_nothing() -> None:
    bundle, target = upstream("marian"), new_vocabulary("marian", "decoder")
    new = unseen(bundle, "decoder", target)
    everything = SegmentationPairs(SOME, bundle, "decoder", target, LANGUAGES, training(), new)
    few = SegmentationPairs(SOME, bundle, "decoder", target, LANGUAGES, training(), new, per_token=2, seed=3)
    assert few.tokens == everything.tokens
    assert 0 < len(few) < len(everything)

    def met(sentences: SegmentationPairs) -> Counter[int]:
        ids = sentences.batch(np.arange(len(sentences)), 0).student.decoder_input_ids.tolist()
        return Counter(token for row in ids for token in new.intersection(row))

    there, chosen = met(everything), met(few)
    assert all(chosen[token] >= min(2, count) for token, count in there.items())
    again = SegmentationPairs(SOME, bundle, "decoder", target, LANGUAGES, training(), new, per_token=2, seed=4)
    assert met(again) != chosen, "which sentences are taken is drawn from the seed"


def test_sentences_that_would_be_cut_are_left_out() -> None:
    bundle, target = upstream("marian"), new_vocabulary("marian", "decoder")
    new = unseen(bundle, "decoder", target)
    fitting = SegmentationPairs(SOME, bundle, "decoder", target, LANGUAGES, training(20), new)
    longest = [max(len(bundle.encoder.encode(one)), len(bundle.decoder.encode(two))) for one, two in SOME]
    assert 0 < len(fitting) <= sum(length < 20 for length in longest) < len(SOME)
    batch = fitting.batch(np.arange(len(fitting)), 0)
    assert batch.teacher.labels.shape[1] <= 20


def test_what_stands_before_a_sentence_takes_its_room_too() -> None:
    bundle, target = upstream(BERT2BERT), new_vocabulary(BERT2BERT, "encoder")
    new = unseen(bundle, "encoder", target)
    fitting = SegmentationPairs(SOME, bundle, "encoder", target, LANGUAGES, training(14), new)
    batch = fitting.batch(np.arange(len(fitting)), 0)
    assert len(fitting) and batch.teacher.input_ids.shape[1] <= 14 and batch.student.input_ids.shape[1] <= 14


def test_further_pairs_serve_tokens_that_the_pairs_have_too_rarely() -> None:
    bundle, target = upstream("marian"), new_vocabulary("marian", "decoder")
    new = unseen(bundle, "decoder", target)

    def taken(pairs: list[tuple[str, str]], additional: list[tuple[str, str]], per_token: int) -> SegmentationPairs:
        return SegmentationPairs(pairs, bundle, "decoder", target, LANGUAGES, training(), new, per_token, 3, additional)

    few, more = SOME[:20], TEXTS[60:200]
    alone, with_more = taken(few, [], 3), taken(few, more, 3)
    assert len(with_more) > len(alone)
    assert alone.tokens < with_more.tokens
    assert with_more.lengths[: len(alone)].tolist() == alone.lengths.tolist(), "the pairs come first, and all the same"
    assert len(taken(few, few, 1)) == len(taken(few, [], 1)), "what the pairs teach often enough is not read again"
