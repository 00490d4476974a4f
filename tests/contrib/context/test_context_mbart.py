"""An mBART that reads the sentences before: its attention, what a sentence sees, and that it is saved and loaded."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.contrib.context.context_mbart import HierarchicalAttention, Sentences
from subgraft.contrib.context.stage import with_context
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.transformers import export_transformers
from subgraft.modeling.families import count_parameters
from subgraft.modeling.inference.translate_documents import ContextTranslator
from subgraft.modeling.sides import encoder_states
from toys import english, english_tokenizer, german_tokenizer, marian, mbart, multilingual_tokenizer

LANGUAGES = Languages(source="en", target="de")
Array = NDArray[np.float64]


def bundle(seed: int = 3) -> Bundle:
    tokenizer = multilingual_tokenizer()
    return with_context(Bundle(mbart(), tokenizer, tokenizer), LANGUAGES, 2, seed)


def _linear(weights: dict[str, Array], name: str, x: Array) -> Array:
    return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", np.zeros(1))


def _norm(weights: dict[str, Array], name: str, x: Array) -> Array:
    spread = np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    normed: Array = (x - x.mean(-1, keepdims=True)) / spread * weights[f"{name}.weight"] + weights[f"{name}.bias"]
    return normed


def _attention(weights: dict[str, Array], name: str, heads: int, query: Array, read: Array) -> Array:
    """Of one query [d] over `read` [L, d], head by head."""
    q, k, v = (_linear(weights, f"{name}.{part}", x) for part, x in (("query", query), ("key", read), ("value", read)))
    size, outputs = len(query) // heads, []
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        scores = k[:, part] @ q[part] / math.sqrt(size)
        shares = np.exp(scores - scores.max())
        outputs.append(shares / shares.sum() @ v[:, part])
    return _linear(weights, f"{name}.attended", np.concatenate(outputs))


def reference(weights: dict[str, Array], heads: int, state: Array, sentences: list[Array]) -> Array:
    """The new state of one token, as the equations of section 2 have it."""
    if not sentences:
        return state
    q_w = _linear(weights, "word_query", state)
    s = np.stack([_norm(weights, "word_norm", _attention(weights, "words", heads, q_w, each)) for each in sentences])
    q_s = _linear(weights, "sentence_query", state)
    inner = np.maximum(_linear(weights, "inner", _attention(weights, "sentences", heads, q_s, s)), 0)
    d = _norm(weights, "sentence_norm", _linear(weights, "outer", inner))
    gate = _linear(weights, "gate_of_state", state) + _linear(weights, "gate_of_context", d) + weights["gate_bias"]
    share = 1 / (1 + np.exp(-gate))
    mixed: Array = share * state + (1 - share) * d
    return mixed


def test_the_attention_is_that_of_the_paper_written_out_token_by_token() -> None:
    torch.manual_seed(1)
    module = HierarchicalAttention(8, 2, 12, 0.1).double().eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    weights = {name: tensor.numpy() for name, tensor in module.state_dict().items()}
    states, context = torch.randn(3, 4, 8, dtype=torch.double), torch.randn(3, 2, 5, 8, dtype=torch.double)
    lengths = [[5, 3], [2, 0], [0, 0]]
    words = torch.tensor([[[place < length for place in range(5)] for length in row] for row in lengths])
    with torch.no_grad():
        outputs = module(states, context, words).numpy()
    for row, sizes in enumerate(lengths):
        before = [context[row, place, :length].numpy() for place, length in enumerate(sizes) if length]
        for token in range(4):
            expected = reference(weights, 2, states[row, token].numpy(), before)
            np.testing.assert_allclose(outputs[row, token], expected, atol=1e-12)


def test_a_row_is_divided_into_the_sentences_before_and_the_own_one() -> None:
    rows = torch.tensor([[7, 8, 4, 9, 4, 10, 11, 4, 1], [10, 11, 4, 1, 1, 1, 1, 1, 1], [5, 4, 10, 11, 4, 1, 1, 1, 1]])
    mask = torch.tensor([[0, 0, 0, 0, 0, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0, 0, 0, 0], [0, 0, 1, 1, 1, 0, 0, 0, 0]])
    read = Sentences.of(rows, mask, padding=1, end=4)
    assert read.own.tolist() == [[10, 11, 4]] * 3 and read.own_mask.all()
    rows_before = zip(read.before, read.words, strict=True)
    before = [[ids[seen].tolist() for ids, seen in zip(*row, strict=True)] for row in rows_before]
    assert before == [[[7, 8, 4], [9, 4]], [[], []], [[5, 4], []]]


def rows_of(texts: list[str], translate: ContextTranslator) -> tuple[torch.Tensor, torch.Tensor]:
    encoded, _ = translate._encode_sources(texts)
    return translate._padded(encoded, translate._source.special["pad"])


def translator(made: Bundle, **search: Any) -> ContextTranslator:
    return ContextTranslator(made, made.sequence_format(LANGUAGES), **{"beam": 2, "max_length_ratio": 1.0, **search})


def own_states(made: Bundle, texts: list[str]) -> list[torch.Tensor]:
    """The states of each text's last line."""
    ids, mask = rows_of(texts, translator(made))
    with torch.no_grad():
        states = encoder_states(made.model, input_ids=ids, attention_mask=mask)
    return [row[seen.bool()] for row, seen in zip(states, mask, strict=True)]


def test_the_first_sentence_has_the_plain_models_states_and_others_change_with_what_is_before_them() -> None:
    made, (a, b, c, d) = bundle(), english(4, 5)
    plain = Bundle(mbart(), made.encoder, made.decoder)
    ids, mask = rows_of([c], translator(made))
    with torch.no_grad():
        expected = encoder_states(plain.model, input_ids=ids, attention_mask=mask)[0]
    first, after_b, after_ab, after_db = own_states(made, [c, f"{b}\n{c}", f"{a}\n{b}\n{c}", f"{d}\n{b}\n{c}"])
    torch.testing.assert_close(first, expected, rtol=0, atol=1e-6)
    for one, other in ((first, after_b), (after_b, after_ab), (after_ab, after_db)):
        assert (one - other).abs().max() > 1e-4
    (alone,) = own_states(made, [f"{a}\n{b}\n{c}"])
    torch.testing.assert_close(alone, after_ab, rtol=0, atol=1e-5)


def test_documents_are_translated_in_one_batch_as_one_by_one_and_no_sentence_sees_later_or_other_ones() -> None:
    made = bundle()
    first, second = english(4, 6), english(3, 7)
    together = translator(made).translate([first, second], batch_size=7)
    assert together == [translator(made).translate([each], batch_size=1)[0] for each in (first, second)]
    assert [len(document) for document in together] == [4, 3]
    changed = [*first[:2], *english(2, 8)]
    other = translator(made).translate([changed, english(3, 9)], batch_size=7)
    assert other[0][:2] == together[0][:2], "nothing that follows a sentence is read"
    encoded = rows_of(["\n".join(first[:3])], translator(made))
    assert encoded[1].sum() < len(encoded[1][0]), "the decoder attends to the own sentence alone"


def test_it_is_saved_and_loaded_and_its_parameters_are_those_of_the_formula(tmp_path: Path) -> None:
    made, texts = bundle(), ["\n".join(english(3, 5))]
    made.save(tmp_path / "model")
    loaded = Bundle.load(tmp_path / "model")
    assert torch.equal(own_states(loaded, texts)[0], own_states(made, texts)[0])
    assert all(torch.equal(a, b) for a, b in zip(made.model.parameters(), loaded.model.parameters(), strict=True))
    assert count_parameters(made.model.config.to_dict()).total == made.model.num_parameters()
    again = bundle()
    assert all(torch.equal(a, b) for a, b in zip(made.model.parameters(), again.model.parameters(), strict=True))
    with pytest.raises(UserError, match="an export would not load"):
        export_transformers(tmp_path / "model", tmp_path / "export", LANGUAGES)


def test_every_parameter_gets_a_gradient_from_a_batch_without_context_too() -> None:
    """Otherwise a worker whose batch has first sentences alone would train other parameters than the others."""
    made = bundle()
    ids, mask = rows_of([english(1, 5)[0]], translator(made))
    labels = ids.clone()
    made.model.train()
    made.model(input_ids=ids, attention_mask=mask, labels=labels).loss.backward()
    assert all(parameter.grad is not None for parameter in made.model.parameters() if parameter.requires_grad)


def test_other_models_are_refused() -> None:
    tokenizer = multilingual_tokenizer()
    with pytest.raises(UserError, match="reads no sentences before"):
        with_context(bundle(), LANGUAGES, 2, 1)
    plain = Bundle(mbart(), tokenizer, tokenizer)
    with pytest.raises(UserError, match="this mbart model reads no sentences before"):
        translator(plain)
    with pytest.raises(UserError, match="a marian model reads no sentences before"):
        with_context(Bundle(marian(), english_tokenizer(), german_tokenizer()), LANGUAGES, 2, 1)
