# mypy: allow-untyped-calls
"""An encoder-decoder whose two sides begin as one BERT: BERT2BERT of Rothe et al. (TACL 2020, sections 2 and 3).

The decoder is the BERT with a causal mask, its masked language modelling head, and attention to the encoder, which is
the one thing that is new.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertLMHeadModel,
    BertModel,
    EncoderDecoderConfig,
    EncoderDecoderModel,
    PreTrainedModel,
)

from subgraft.errors import UserError
from subgraft.vocabulary.tokenizer import Tokenizer

# Of the encoder, and for classifying sentences: nothing here reads what it makes.
POOLER = "encoder.pooler."


def assemble(bert: BertForMaskedLM, tokenizer: Tokenizer, seed: int) -> EncoderDecoderModel:
    """The encoder-decoder made from a BERT, in evaluation mode; its new weights are a function of the seed alone.

    tokenizer: the BERT's, of both sides. Raises UserError where it has no beginning, end or padding.
    """
    ids = _token_ids(tokenizer)
    described = {**bert.config.to_dict(), "pad_token_id": ids["pad_token_id"]}
    for derived in ("model_type", "architectures", "is_decoder", "add_cross_attention"):
        described.pop(derived, None)
    encoder_config = BertConfig(**described)
    decoder_config = BertConfig(**described, is_decoder=True, add_cross_attention=True)
    whole: dict[str, Any] = {**ids, "tie_word_embeddings": encoder_config.tie_word_embeddings}
    config = EncoderDecoderConfig(encoder=encoder_config.to_dict(), decoder=decoder_config.to_dict(), **whole)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = BertModel(encoder_config, add_pooling_layer=False)
        model = EncoderDecoderModel(config, encoder, BertLMHeadModel(decoder_config))
    model.encoder.load_state_dict(bert.bert.state_dict())
    new = model.decoder.load_state_dict(bert.state_dict(), strict=False).missing_keys
    assert all(".crossattention." in name for name in new)
    for name, token in ids.items():
        setattr(model.generation_config, name, token)
    # Without a limit of its own, generate stops after 20 tokens.
    model.generation_config.max_length = encoder_config.max_position_embeddings
    model.eval()
    return model


def _token_ids(tokenizer: Tokenizer) -> dict[str, int]:
    """What generation is told: it begins as a BERT's sentences do."""
    missing = [role for role in ("pad", "bos", "eos") if role not in tokenizer.special]
    if missing:
        raise UserError(f"the vocabulary of this BERT has no special token for: {', '.join(missing)}")
    begin, end = tokenizer.special["bos"], tokenizer.special["eos"]
    return {
        "pad_token_id": tokenizer.special["pad"],
        "bos_token_id": begin,
        "eos_token_id": end,
        "decoder_start_token_id": begin,
    }


def without_pooler(model: PreTrainedModel) -> None:
    """Take the encoder's pooler away, which transformers constructs whether a file has its weights or not."""
    encoder = model.get_encoder()
    encoder.pooler = None


def prediction_head(model: PreTrainedModel) -> Any:
    """What a BERT, or a decoder made of one, has between its top states and its predictions; None of other families.

    That is: transform, projection (`decoder`) and bias.
    """
    whole = model.decoder if isinstance(model, EncoderDecoderModel) else model
    return whole.cls.predictions if isinstance(whole, BertForMaskedLM | BertLMHeadModel) else None
