from __future__ import annotations

import pytest
import torch

from subgraft.config.corpora import Languages
from subgraft.modeling.inference.search import MARGIN, LengthLimit, piece_bytes
from subgraft.modeling.inference.translate import Translator
from toys import SHAPE, english_tokenizer, german_tokenizer, marian, output_bias, sequence_format

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
    assert translate.cut == len(SOURCES)
    piece = int(piece_bytes(target)[longest])
    for text, output in zip(SOURCES, outputs, strict=True):
        limit = 0.5 * len(text.encode()) + MARGIN
        assert limit - piece <= len(output.encode()) < limit + piece
    output_bias(model)[0, target.special["eos"]] = 1e4
    assert translate(SOURCES) == ["", ""]
    assert translate.cut == 0
