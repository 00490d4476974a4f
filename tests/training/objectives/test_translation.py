from __future__ import annotations

from subgraft.config.corpora import Languages
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.seq2seq import collate
from subgraft.training.objectives.compute.translation import Translation
from toys import english, english_tokenizer, german, german_tokenizer, multilingual_tokenizer, sequence_format

PAIRS = list(zip(english(20), german(20), strict=True))
LANGUAGES = Languages(source="en", target="de")


def _marian(max_length: int, **unit: str) -> Translation:
    source, target = english_tokenizer(), german_tokenizer()
    form = sequence_format({"model_type": "marian"}, source, target, LANGUAGES)
    return Translation(PAIRS, source, target, form, max_length, **unit)  # type: ignore[arg-type]


def test_marian_examples_end_with_the_end_and_start_from_padding() -> None:
    source, target = english_tokenizer(), german_tokenizer()
    example = _marian(100).example(3, epoch=0)
    assert example.source == [*source.encode(PAIRS[3][0]), source.special["eos"]]
    assert example.target == [*target.encode(PAIRS[3][1]), target.special["eos"]]
    assert example.start == target.special["pad"]
    assert (example.source_body, example.target_body) == (len(example.source) - 1, len(example.target) - 1)


def test_mbart_examples_end_with_their_language_and_start_from_the_target_s() -> None:
    tokenizer = multilingual_tokenizer()
    form = sequence_format({"model_type": "mbart"}, tokenizer, tokenizer, LANGUAGES)
    example = Translation(PAIRS, tokenizer, tokenizer, form, 100).example(0, epoch=0)
    assert example.source[-2:] == [tokenizer.special["eos"], tokenizer.languages["en_XX"]]
    assert example.target[-2:] == [tokenizer.special["eos"], tokenizer.languages["de_DE"]]
    assert example.start == tokenizer.languages["de_DE"]


def test_pairs_that_lose_something_to_the_limit_are_counted() -> None:
    whole = _marian(100)
    assert whole.truncated == 0
    longest = int(whole.lengths.max())
    limited = _marian(longest - 1)
    assert limited.truncated == int((whole.lengths > longest - 1).sum()) > 0
    assert limited.lengths.max() == longest - 1
    example = limited.example(int(whole.lengths.argmax()), epoch=0)
    assert max(len(example.source), len(example.target)) == longest - 1
    assert example.target[-1] == german_tokenizer().special["eos"], "what is cut still ends"


def test_lengths_in_characters_are_the_same_for_every_vocabulary() -> None:
    expected = [max(len(source), len(target)) + 1 for source, target in PAIRS]
    assert _marian(100, batch_unit="characters").lengths.tolist() == expected


def test_a_batch_is_padded_and_padding_is_not_a_label() -> None:
    examples = [_marian(100).example(index, epoch=0) for index in range(5)]
    batch = collate(examples, source_pad=7, target_pad=9)
    for row, example in enumerate(examples):
        size, width = len(example.source), batch.input_ids.shape[1]
        assert batch.input_ids[row].tolist() == example.source + [7] * (width - size)
        assert batch.attention_mask[row].tolist() == [1] * size + [0] * (width - size)
        size, width = len(example.target), batch.labels.shape[1]
        assert batch.labels[row].tolist() == example.target + [IGNORED] * (width - size)
        assert batch.decoder_input_ids[row, :size].tolist() == [example.start, *example.target[:-1]]
    assert batch.counts == {"loss": sum(len(example.target) for example in examples)}
