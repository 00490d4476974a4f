"""Simple fusion (Stahlberg et al., 2018): scores of a model of the source, added to the language model's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from subgraft.modeling.conditioning.variants.variant import (
    Heads,
    Memory,
    PartCounts,
    StackSettings,
    Variant,
    input_embeddings,
    target_cache,
    target_mask,
)

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import EncoderDecoderCache, PreTrainedConfig, PreTrainedModel


class SimpleFusion(Variant):
    """A frozen language model's scores and those of a model of the source, summed (Stahlberg et al., 2018).

    P(y) = softmax(S(y) + log p_LM(y)), the paper's PRENORM. At each position the normaliser of p_LM is one number for
    all tokens, so this is the softmax of the summed logits. S scores by the language model's own output table, E: with
    states h of the language model and s of S, the summed logits are E(h + s), and one projection is enough.

    S is a Transformer decoder over the language model's frozen embeddings of the target, with S = 0 at first.
    """

    name = "simple-fusion"
    frozen = True

    def parameters(self, count: PartCounts) -> int:
        return count.read + count.decoder_norm + count.decoder

    def add_modules(self, parts: Any, config: PreTrainedConfig, decoder: StackSettings) -> None:
        from torch import nn

        from subgraft.contrib.conditioning.source_decoder import SourceDecoder

        width = int(config.hidden_size)
        parts.read = nn.Linear(width, decoder.d_model)
        parts.norm = nn.LayerNorm(decoder.d_model)
        parts.decoder = SourceDecoder.of(decoder, width, first=Heads.of(config).layers)
        parts.score = nn.Linear(decoder.d_model, width)
        nn.init.zeros_(parts.score.weight)
        nn.init.zeros_(parts.score.bias)

    def states(
        self,
        parts: Any,
        language_model: PreTrainedModel,
        memory: Memory,
        cache: EncoderDecoderCache | None,
        **inputs: Tensor,
    ) -> Tensor:
        from subgraft.contrib.conditioning.source_decoder import sinusoids

        seen = 0 if cache is None else target_cache(cache).get_seq_length()
        visible = target_mask(cache, inputs)
        embedded = input_embeddings(language_model, inputs)
        positions = sinusoids(seen, embedded.shape[1], parts.read.out_features, embedded.device)
        scored = parts.score(parts.decoder(parts.norm(parts.read(embedded)) + positions, memory, cache))
        cache_of_target = None if cache is None else target_cache(cache)
        top: Tensor = language_model.base_model(
            attention_mask=visible, past_key_values=cache_of_target, use_cache=cache is not None, **inputs
        ).last_hidden_state
        fused: Tensor = top + scored
        return fused
