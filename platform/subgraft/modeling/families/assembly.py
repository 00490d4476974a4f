# mypy: allow-untyped-calls
"""Assembling an encoder-decoder from a BERT (Rothe et al., TACL 2020, sections 2 and 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from subgraft.base.errors import UserError
from subgraft.modeling.families.model_parts import Config

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# transformers' EncoderDecoderModel, here always of two BERTs.
BERT2BERT = "encoder-decoder"


def assembled(bert: Config) -> dict[str, Any]:
    """The configuration of the encoder-decoder that is made of a BERT."""
    part = {key: value for key, value in bert.items() if key != "architectures"}
    return {
        "model_type": BERT2BERT,
        "encoder": dict(part),
        "decoder": {**part, "is_decoder": True, "add_cross_attention": True},
        "tie_word_embeddings": bert.get("tie_word_embeddings", True),
    }


class Stacks(NamedTuple):
    """The transformers classes of a configuration, of an encoder, and of a decoder that predicts tokens."""

    config: Any
    encoder: Any
    decoder: Any


def assemble(bert: PreTrainedModel, stacks: Stacks, tokenizer: Tokenizer, seed: int) -> PreTrainedModel:
    """The encoder-decoder assembled from a BERT, in evaluation mode; its new weights depend on the seed only.

    tokenizer: the BERT's, for both sides. Raises UserError if it lacks a beginning, end or padding token.
    """
    import torch
    from transformers import EncoderDecoderConfig, EncoderDecoderModel

    ids = _token_ids(tokenizer)
    described = {**bert.config.to_dict(), "pad_token_id": ids["pad_token_id"]}
    for derived in ("model_type", "architectures", "is_decoder", "add_cross_attention", "_name_or_path"):
        described.pop(derived, None)
    encoder_config = stacks.config(**described)
    decoder_config = stacks.config(**described, is_decoder=True, add_cross_attention=True)
    whole: dict[str, Any] = {**ids, "tie_word_embeddings": encoder_config.tie_word_embeddings}
    config = EncoderDecoderConfig(encoder=encoder_config.to_dict(), decoder=decoder_config.to_dict(), **whole)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = stacks.encoder(encoder_config, add_pooling_layer=False)
        model = EncoderDecoderModel(config, encoder, stacks.decoder(decoder_config))
    model.encoder.load_state_dict(bert.base_model.state_dict())
    new = model.decoder.load_state_dict(bert.state_dict(), strict=False).missing_keys
    assert all(".crossattention." in name for name in new)
    for name, token in ids.items():
        setattr(model.generation_config, name, token)
    # Without a limit of its own, generate stops after 20 tokens.
    model.generation_config.max_length = encoder_config.max_position_embeddings
    model.eval()
    return model


def _token_ids(tokenizer: Tokenizer) -> dict[str, int]:
    """Token ids of generation: decoding starts with [CLS], as a BERT's sentences do."""
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
