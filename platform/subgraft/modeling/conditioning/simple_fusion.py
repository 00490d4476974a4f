"""Simple fusion: a frozen language model's scores and those of a model of the source, summed (Stahlberg et al., 2018).

P(y) = softmax(S(y) + log p_LM(y)), the paper's PRENORM. At each position the normaliser of p_LM is one number for all
tokens, so this is the softmax of the summed logits. S scores by the language model's own output table, E: with states h
of the language model and s of S, the summed logits are E(h + s), and one projection is enough.
"""

from __future__ import annotations

from torch import Tensor, nn
from transformers import EncoderDecoderCache, PreTrainedConfig, PreTrainedModel

from subgraft.modeling.conditioning.source_decoder import SourceDecoder, sinusoids
from subgraft.modeling.conditioning.variant import Heads, Memory, Variant, all_targets, input_embeddings, own_cache


class SimpleFusion(Variant):
    """S is a Transformer decoder over the language model's frozen embeddings of the target, with S = 0 at first."""

    def __init__(self, config: PreTrainedConfig, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__(config)
        model_width = int(config.hidden_size)
        self._width = width
        self.read = nn.Linear(model_width, width)
        self.norm = nn.LayerNorm(width)
        self.decoder = SourceDecoder(width, model_width, layers, heads, dropout, first=Heads.of(config).layers)
        self.score = nn.Linear(width, model_width)
        nn.init.zeros_(self.score.weight)
        nn.init.zeros_(self.score.bias)

    def states(
        self, language_model: PreTrainedModel, memory: Memory, cache: EncoderDecoderCache | None, **inputs: Tensor
    ) -> Tensor:
        seen = 0 if cache is None else own_cache(cache).get_seq_length()
        visible = all_targets(cache, inputs)
        embedded = input_embeddings(language_model, inputs)
        positions = sinusoids(seen, embedded.shape[1], self._width, embedded.device)
        scored = self.score(self.decoder(self.norm(self.read(embedded)) + positions, memory, cache))
        own = None if cache is None else own_cache(cache)
        top: Tensor = language_model.base_model(
            attention_mask=visible, past_key_values=own, use_cache=cache is not None, **inputs
        ).last_hidden_state
        fused: Tensor = top + scored
        return fused
