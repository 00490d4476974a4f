"""The likelihood of references, token by token, against the model's own logits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from new_vocabularies import LANGUAGES, TEXTS, upstream
from subgraft.modeling.families.encoder_only import BERT2BERT
from subgraft.training.objectives.compute.seq2seq import collate
from subgraft.training.objectives.compute.translation import Translation, reference_nats


@pytest.mark.parametrize("family", ["marian", "mbart", BERT2BERT])
def test_nats_are_those_of_the_models_logits(family: str) -> None:
    bundle, pairs = upstream(family), TEXTS[:7]
    nats = dict(reference_nats(bundle, pairs, LANGUAGES))
    form = bundle.sequence_format(LANGUAGES)
    examples = Translation(pairs, bundle.encoder, bundle.decoder, form, bundle.max_positions)
    whole = [place for place in range(7) if examples.whole_targets[place]]
    assert sorted(nats) == whole and whole
    for place in whole:
        batch = collate([examples.example(place, 0)], *bundle.padding)
        with torch.no_grad():
            logits = bundle.model(
                input_ids=batch.input_ids,
                attention_mask=batch.attention_mask,
                decoder_input_ids=batch.decoder_input_ids,
            ).logits
        expected = torch.nn.functional.cross_entropy(logits[0], batch.labels[0], reduction="none")
        np.testing.assert_allclose(nats[place], expected.numpy(), rtol=1e-3, atol=1e-4)


def test_references_beyond_the_models_positions_are_left_out() -> None:
    bundle = upstream("marian")
    source, target = TEXTS[0]
    short = "dank."
    pairs = [(source, short), (source, " ".join([target] * 9)), (" ".join([source] * 9), short)]
    assert len(bundle.decoder.encode(pairs[1][1])) > bundle.max_positions
    nats = dict(reference_nats(bundle, pairs, LANGUAGES))
    assert sorted(nats) == [0, 2], "a source that is too long is cut, as it is for generation"
    assert len(nats[0]) == len(bundle.decoder.encode(short)) + 1
