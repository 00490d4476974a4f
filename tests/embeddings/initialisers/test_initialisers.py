from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from subgraft.base.errors import UserError
from subgraft.embeddings.generators.generator import (
    Generator,
    GeneratorKind,
    GeneratorOrigin,
    save_generators,
    table_digest,
)
from subgraft.embeddings.initialisers.new_rows import InitialiserInputs
from subgraft.embeddings.methods.registry import METHODS, method_spec
from subgraft.modeling.sides import Side, side
from subgraft.subwords.similar_tokens.finder import SimilarTokenFinder
from subgraft.subwords.vocabulary.entry import Entry
from toys import marian, mbart, multilingual_tokenizer
from vectors import unseen, untied_decoder

ORDINARY = [i for i, entry in enumerate(multilingual_tokenizer().entries) if entry is not None]


def request(
    upstream: Side | None = None, entries: Sequence[Entry] | None = None, others: int = 0, **changes: object
) -> InitialiserInputs:
    settings = {"scale": 0.5, "seed": 3, "max_similar": 5, "generator": None, **changes}
    chosen = unseen() if entries is None else entries
    return InitialiserInputs(upstream or side(mbart(), "decoder"), multilingual_tokenizer(), chosen, others, **settings)  # type: ignore[arg-type]


def trained(upstream: Side, kind: GeneratorKind, directory: Path, vocabulary: str | None = None) -> Generator:
    generator = Generator(kind, upstream.input.weight.shape[1])
    torch.manual_seed(8)
    torch.nn.init.normal_(generator.weight, std=3.0)
    fingerprint = vocabulary or multilingual_tokenizer().fingerprint
    origin = GeneratorOrigin(table_digest(upstream.input.weight), fingerprint, 7)
    save_generators({"decoder": generator}, {"decoder": origin}, directory)
    return generator


def test_unknown_methods_are_refused_with_the_choices() -> None:
    with pytest.raises(UserError, match="random, random-matched, mean, avg, att, patt"):
        method_spec("magic")


def test_random_rows_have_the_stated_scale_and_no_bias() -> None:
    entries = [Entry(str(i), True) for i in range(4000)]
    rows = METHODS["random"].new_rows(request(entries=entries, others=7, scale=0.3))
    assert rows.input.shape == (4007, 16)
    assert rows.input.std().item() == pytest.approx(0.3, rel=0.02)
    assert rows.scale == 0.3
    assert rows.bias is not None
    assert not rows.bias.any()
    assert rows.output is None, "the projection is tied"


def test_the_matched_control_has_the_tables_moments_in_every_dimension() -> None:
    """Of ordinary tokens' rows; special ones may be of another size altogether."""
    upstream = untied_decoder()
    with torch.no_grad():
        upstream.input.weight[multilingual_tokenizer().special["bos"]] = 1e3
    assert upstream.output is not None
    entries = [Entry(str(i), True) for i in range(20000)]
    rows = METHODS["random-matched"].new_rows(request(upstream, entries))
    for new, whole in ((rows.input, upstream.input.weight), (rows.output, upstream.output.weight)):
        assert new is not None
        table = whole[ORDINARY]
        assert torch.allclose(new.mean(0), table.mean(0), atol=0.01)
        assert torch.allclose(new.std(0), table.std(0), rtol=0.03)
    assert rows.scale is None


def test_random_rows_follow_the_seed_and_differ_between_sides() -> None:
    draw = METHODS["random"].new_rows
    assert torch.equal(draw(request()).input, draw(request()).input)
    assert not torch.equal(draw(request()).input, draw(request(seed=4)).input)
    model = marian()
    entries = unseen()
    encoder, decoder = (draw(request(side(model, name), entries)).input for name in ("encoder", "decoder"))
    assert not torch.equal(encoder, decoder)


def test_the_mean_is_over_the_upstream_subwords_repeats_included() -> None:
    source, upstream = multilingual_tokenizer(), untied_decoder()
    entries = [*unseen(), Entry("lichlich", False), Entry("☃", True)]
    rows = METHODS["mean"].new_rows(request(upstream, entries, others=1))
    assert upstream.output is not None
    assert upstream.bias is not None
    ignored = source.special_ids | {source.pieces.index("▁")}
    for i, entry in enumerate(entries):
        parts = [token for token in source.segment(entry) if token not in ignored]
        chosen = parts or ORDINARY
        assert torch.allclose(rows.input[i], upstream.input.weight[chosen].mean(0), atol=1e-6)
        assert rows.output is not None
        assert torch.allclose(rows.output[i], upstream.output.weight[chosen].mean(0), atol=1e-6)
        assert rows.bias is not None
        assert torch.allclose(rows.bias[i], upstream.bias.flatten()[chosen].mean(), atol=1e-6)
    assert torch.allclose(rows.input[-1], upstream.input.weight[ORDINARY].mean(0), atol=1e-6)
    assert rows.fallbacks == {"characters": 0, "bytes": 0, "mean": 1}


@pytest.mark.parametrize("kind", ["avg", "att", "patt"])
def test_weights_come_from_the_input_table_and_are_applied_to_all_three(kind: GeneratorKind, tmp_path: Path) -> None:
    source, upstream = multilingual_tokenizer(), untied_decoder()
    generator = None if kind == "avg" else trained(upstream, kind, tmp_path)
    directory = None if kind == "avg" else tmp_path
    entries = [*unseen(), Entry("☃", True)]
    rows = METHODS[kind].new_rows(request(upstream, entries, others=2, generator=directory))
    similar = SimilarTokenFinder(source, 5 if kind == "avg" else 7).find(entries)
    assert upstream.output is not None
    assert upstream.bias is not None
    table = upstream.input.weight.detach()
    for i in range(len(entries) - 1):
        span = slice(similar.offsets[i], similar.offsets[i + 1])
        tokens, relations = similar.token_ids[span], similar.relations[span]
        if generator is None:
            scores = torch.zeros(len(tokens))
        else:
            heads = generator.weight[relations if kind == "patt" else [0] * len(relations)].detach()
            scores = (heads * table[tokens]).sum(1)
        weights = scores.softmax(0)
        assert torch.allclose(rows.input[i], weights @ table[tokens], atol=1e-5)
        assert rows.output is not None
        assert torch.allclose(rows.output[i], weights @ upstream.output.weight[tokens], atol=1e-5)
        assert rows.bias is not None
        assert torch.allclose(rows.bias[i], weights @ upstream.bias.flatten()[tokens], atol=1e-5)
    assert torch.allclose(rows.input[-3:], table[ORDINARY].mean(0).expand(3, -1), atol=1e-6)
    assert rows.fallbacks["mean"] == 1


def test_rows_of_a_half_precision_model_are_mixed_in_single_precision() -> None:
    model = mbart().bfloat16()
    upstream = side(model, "decoder")
    rows = METHODS["avg"].new_rows(request(upstream))
    assert rows.input.dtype == torch.float32
    similar = SimilarTokenFinder(multilingual_tokenizer(), 5).find(unseen())
    first = similar.token_ids[similar.offsets[0] : similar.offsets[1]]
    assert torch.allclose(rows.input[0], upstream.input.weight[first].float().mean(0), atol=1e-6)


def test_a_generator_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    upstream = side(mbart(), "decoder")
    with pytest.raises(UserError, match="patt needs a trained generator"):
        METHODS["patt"].new_rows(request(upstream))
    trained(upstream, "att", tmp_path)
    with pytest.raises(UserError, match="of kind att, not patt"):
        METHODS["patt"].new_rows(request(upstream, generator=tmp_path))
    with pytest.raises(UserError, match="avg has nothing to train"):
        METHODS["avg"].new_rows(request(upstream, generator=tmp_path))
    with pytest.raises(UserError, match="another model"):
        METHODS["att"].new_rows(request(side(mbart(seed=9), "decoder"), generator=tmp_path))
    with pytest.raises(UserError, match="not for the encoder"):
        METHODS["att"].new_rows(request(side(mbart(), "encoder"), generator=tmp_path))
    trained(upstream, "att", tmp_path, vocabulary="0" * 64)
    with pytest.raises(UserError, match="another vocabulary"):
        METHODS["att"].new_rows(request(upstream, generator=tmp_path))
