"""Encoders of pretrained models that read the source of a language model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.contrib.conditioning.conditional_model import conditioned
from subgraft.contrib.conditioning.source_encoders import encoder_of
from subgraft.contrib.conditioning.source_settings import pretrained_source
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.conditioning.settings import ConditioningSettings
from subgraft.modeling.conditioning.sources import TextSource
from subgraft.modeling.families import Parameters, count_parameters
from subgraft.training.objectives.compute.conditioned import source_read
from toys import bert, english_tokenizer, german, german_tokenizer, gpt2, m2m100, marian, mbart, t5

READERS: dict[str, Callable[[], PreTrainedModel]] = {"marian": marian, "bert": bert, "t5": t5, "m2m100": m2m100}


def _conditioned(reader: PreTrainedModel) -> PreTrainedModel:
    encoder = encoder_of(reader)
    parameters = Parameters(encoder.num_parameters(), encoder.num_parameters(only_trainable=True))
    source = pretrained_source(reader.config.to_dict(), 20, parameters=parameters)
    settings = ConditioningSettings(variant="pseudo-self", source=source)
    return conditioned(gpt2(), settings, 1, reader)


@pytest.mark.parametrize("name", READERS)
def test_its_states_are_the_models_own_and_are_loaded_again(name: str, tmp_path: Path) -> None:
    reader = READERS[name]().eval()
    model = _conditioned(reader)
    ids, mask = torch.tensor([[5, 6, 7, 8], [7, 6, 0, 0]]), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    with torch.no_grad():
        wanted = encoder_of(reader)(input_ids=ids, attention_mask=mask).last_hidden_state
        read = model.source.encoder(input_ids=ids, attention_mask=mask).last_hidden_state  # type: ignore[operator, union-attr]
        assert torch.equal(read[mask == 1], wanted[mask == 1])
        inputs = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": torch.tensor([[1, 8], [1, 9]])}
        logits = model(**inputs).logits
        Bundle(model, german_tokenizer(), english_tokenizer()).save(tmp_path / "model")
        loaded = Bundle.load(tmp_path / "model")
        assert torch.equal(loaded.model(**inputs).logits, logits)
    result = count_parameters(model.config.to_dict())
    assert result.total == model.num_parameters() and result.trained == model.num_parameters(only_trainable=True)
    assert loaded.encoder.fingerprint == german_tokenizer().fingerprint != loaded.decoder.fingerprint


def test_a_text_is_cut_between_the_special_tokens_of_the_model() -> None:
    tokenizer = german_tokenizer()
    begin, end = tokenizer.special["bos"], tokenizer.special["eos"]
    rows = TextSource(tokenizer, 6, ((begin,), (end,))).encode(german()[:1])[0].tolist()
    assert rows == [begin, *tokenizer.encode(german()[0])[:4], end]
    reader, around = bert(), {"beginning": (begin,), "ending": (end,)}
    source = pretrained_source(reader.config.to_dict(), 6).model_copy(update=around)
    model = conditioned(gpt2(), ConditioningSettings(variant="pseudo-self", source=source), 1, reader)
    assert source_read(Bundle(model, tokenizer, tokenizer)).encode(german()[:1])[0].tolist() == rows


def test_a_model_without_an_encoder_of_its_own_lends_none() -> None:
    split = mbart().config.to_dict() | {"model_type": "split_mbart"}
    for config in (gpt2().config.to_dict(), split):
        with pytest.raises(UserError, match="has no encoder that can be taken out of it"):
            pretrained_source(config, 20)
    limit = marian().config.max_position_embeddings
    assert pretrained_source(marian().config.to_dict(), 10_000).max_length == limit
