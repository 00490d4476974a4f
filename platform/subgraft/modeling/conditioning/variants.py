"""The variants, which are ways to condition a language model on a source: a class for each, and their registry.

All but simple fusion are from Ziegler et al. (2019).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm
from transformers import Cache, EncoderDecoderCache, PreTrainedConfig, PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.config.conditioning import VARIANTS, ConditioningSettings, VariantName
from subgraft.modeling.conditioning.source_decoder import SourceDecoder, sinusoids
from subgraft.modeling.conditioning.variant import (
    Heads,
    Memory,
    Variant,
    batch_shape,
    input_embeddings,
    mask_of_source_and_target,
    target_cache,
    target_mask,
)


def _states_after_source(
    language_model: PreTrainedModel,
    memory: Memory,
    keys: Cache,
    targets: int,
    positions: Tensor,
    inputs: Mapping[str, Tensor],
) -> Tensor:
    """Top states of inputs whose keys and values follow the source's. targets: the number of target tokens so far."""
    top: Tensor = language_model.base_model(
        attention_mask=mask_of_source_and_target(memory, targets),
        position_ids=positions,
        past_key_values=keys,
        use_cache=True,
        **inputs,
    ).last_hidden_state
    return top


class Prepend(Variant):
    """The source precedes the target in the language model's input.

    It has no new parameters except the source encoder's, and none at all if that is the model's embeddings.

    Positions count source and target, which together must not exceed the model's limit. Padding follows the rows of the
    source and has no positions.
    """

    def states(
        self, language_model: PreTrainedModel, memory: Memory, cache: EncoderDecoderCache | None, **inputs: Tensor
    ) -> Tensor:
        keys, rows = target_cache(cache), memory.states.shape[1]
        first, (_, length) = keys.get_seq_length() == 0, batch_shape(inputs)
        seen = 0 if first else keys.get_seq_length() - rows
        device = memory.mask.device
        positions = memory.mask.sum(1, keepdim=True) + torch.arange(seen, seen + length, device=device)
        model_inputs = inputs
        if first:
            embedded = input_embeddings(language_model, inputs)
            model_inputs = {"inputs_embeds": torch.cat([memory.states.to(embedded.dtype), embedded], dim=1)}
            before = torch.arange(rows, device=device).expand(len(positions), -1)
            positions = torch.cat([before, positions], dim=1)
        return _states_after_source(language_model, memory, keys, seen + length, positions, model_inputs)[:, -length:]


# The standard deviation of GPT-2's own projections: scores and values of the source start near zero.
INIT_STD = 0.02


class PseudoSelf(Variant):
    """The source's keys and values precede the target's.

    PSA(X, Y) = softmax((Y W_q) [X U_k; Y W_k]^T / sqrt(d_h)) [X U_v; Y W_v], in every layer; only U is new.

    U of each layer [d, 2 h d_h] with its bias: keys of the source, then values.
    The model's cache starts with them. Positions count the target only, so the model's limit applies to the target
    alone. The source's keys have no position: with rotary positions, all rows are at the target's first position.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__(config)
        self._heads = Heads.of(config)
        both = 2 * self._heads.heads * self._heads.size
        self.projections = nn.ModuleList(nn.Linear(config.hidden_size, both) for _ in range(self._heads.layers))
        for projection in self.projections:
            nn.init.normal_(projection.weight, std=INIT_STD)  # type: ignore[arg-type]
            nn.init.zeros_(projection.bias)  # type: ignore[arg-type]

    def states(
        self, language_model: PreTrainedModel, memory: Memory, cache: EncoderDecoderCache | None, **inputs: Tensor
    ) -> Tensor:
        keys, rows = target_cache(cache), memory.states.shape[1]
        if keys.get_seq_length() == 0:
            for layer in range(self._heads.layers):
                keys.update(*self.keys_and_values(memory.states, layer), layer)
        seen, (_, length) = keys.get_seq_length() - rows, batch_shape(inputs)
        positions = torch.arange(seen, seen + length, device=memory.mask.device)[None]
        return _states_after_source(language_model, memory, keys, seen + length, positions, inputs)

    def keys_and_values(self, source: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """X U_k and X U_v of a layer, each [B, h, S, d_h]. source: X [B, S, d]."""
        rows = self.projections[layer](source).unflatten(-1, (2, self._heads.heads, self._heads.size))
        keys, values = rows.permute(2, 0, 3, 1, 4)
        return keys, values


class ContextAttention(Variant):
    """In every layer, new cross-attention to the source after self-attention.

    It is transformers' own, with a separate norm before the queries. Its weights are in the language model.
    """

    @classmethod
    def prepare(cls, config: PreTrainedConfig) -> None:
        if not hasattr(config, "add_cross_attention"):
            raise UserError(
                f"a {config.model_type} model does not support attention to a source",
                hint="Use pseudo-self, prepend, simple-fusion or representation, or a GPT-2.",
            )
        config.add_cross_attention = True

    def prepare_modules(self, language_model: PreTrainedModel) -> None:
        for block in blocks(language_model):
            block.crossattention.register_forward_hook(_masked_source_adds_nothing, with_kwargs=True)

    def states(
        self, language_model: PreTrainedModel, memory: Memory, cache: EncoderDecoderCache | None, **inputs: Tensor
    ) -> Tensor:
        top: Tensor = language_model.base_model(
            encoder_hidden_states=memory.states,
            encoder_attention_mask=memory.mask,
            attention_mask=target_mask(cache, inputs),
            past_key_values=cache,
            use_cache=cache is not None,
            **inputs,
        ).last_hidden_state
        return top


class SharedNormContextAttention(ContextAttention):
    """The paper's arrangement: the norm before the feed-forward part, ln_2, also precedes the queries."""

    def prepare_modules(self, language_model: PreTrainedModel) -> None:
        super().prepare_modules(language_model)
        for block in blocks(language_model):
            del block.ln_cross_attn
            # Not registered as a module, so that its weights exist, and are saved, once.
            object.__setattr__(block, "ln_cross_attn", block.ln_2)


class FromScratch(ContextAttention):
    """`none`: the same Transformer decoder without pretrained weights (Vaswani et al., 2017)."""

    pretrained = False


def blocks(language_model: nn.Module) -> Iterator[Any]:
    """The layers that attend to a source."""
    return (module for module in language_model.modules() if hasattr(module, "crossattention"))


def _masked_source_adds_nothing(module: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> Any:
    """A completely masked source adds nothing: no bias, and no mean of masked states."""
    mask: Tensor | None = kwargs.get("encoder_attention_mask")
    if mask is None:  # nothing is masked
        return output
    visible = mask if not mask.is_floating_point() else mask == 0
    added, weights = output
    return added.where(visible.any(-1)[:, 0, :, None], added.new_zeros(())), weights


class SimpleFusion(Variant):
    """A frozen language model's scores and those of a model of the source, summed (Stahlberg et al., 2018).

    P(y) = softmax(S(y) + log p_LM(y)), the paper's PRENORM. At each position the normaliser of p_LM is one number for
    all tokens, so this is the softmax of the summed logits. S scores by the language model's own output table, E: with
    states h of the language model and s of S, the summed logits are E(h + s), and one projection is enough.

    S is a Transformer decoder over the language model's frozen embeddings of the target, with S = 0 at first.
    """

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
        seen = 0 if cache is None else target_cache(cache).get_seq_length()
        visible = target_mask(cache, inputs)
        embedded = input_embeddings(language_model, inputs)
        positions = sinusoids(seen, embedded.shape[1], self._width, embedded.device)
        scored = self.score(self.decoder(self.norm(self.read(embedded)) + positions, memory, cache))
        cache_of_target = None if cache is None else target_cache(cache)
        top: Tensor = language_model.base_model(
            attention_mask=visible, past_key_values=cache_of_target, use_cache=cache is not None, **inputs
        ).last_hidden_state
        fused: Tensor = top + scored
        return fused


class Representation(Variant):
    """Representations of a frozen language model as the inputs of a smaller decoder.

    The inputs are a mix of the model's layers, gamma sum_j softmax(w)_j h_j (ELMo: Peters et al., NAACL 2018, section
    3.2). The decoder's states are mapped back to the language model's width and read by its frozen projection.
    """

    def __init__(self, config: PreTrainedConfig, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__(config)
        model_width, depth = int(config.hidden_size), Heads.of(config).layers
        self.mix = nn.Parameter(torch.zeros(depth + 1))
        # One-dimensional, because DeepSpeed cannot send a scalar parameter to its workers.
        self.gamma = nn.Parameter(torch.ones(1))
        self.read = nn.Linear(model_width, width)
        self.decoder = SourceDecoder(width, model_width, layers, heads, dropout, first=depth)
        self.write = nn.Linear(width, model_width)

    def states(
        self, language_model: PreTrainedModel, memory: Memory, cache: EncoderDecoderCache | None, **inputs: Tensor
    ) -> Tensor:
        cache_of_target = None if cache is None else target_cache(cache)
        layers = language_model.base_model(
            attention_mask=target_mask(cache, inputs),
            past_key_values=cache_of_target,
            use_cache=cache is not None,
            output_hidden_states=True,
            **inputs,
        ).hidden_states
        states: Tensor = self.write(self.decoder(self.read(self.mix_layers(layers)), memory, cache))
        return states

    def mix_layers(self, layers: tuple[Tensor, ...]) -> Tensor:
        """The weighted sum [B, T, d] of all layers' normed states, input first; norms of deeper layers are larger."""
        shares = self.mix.softmax(0)
        normed = (layer_norm(layer, layer.shape[-1:]) for layer in layers)
        mixed: Tensor = self.gamma * sum(share * layer for share, layer in zip(shares, normed, strict=True))
        return mixed


# Their properties for settings and plans are in `config.conditioning.VARIANTS`.
CLASSES: Mapping[VariantName, type[Variant]] = {
    "pseudo-self": PseudoSelf,
    "context-attention": SharedNormContextAttention,
    "cross-attention": ContextAttention,
    "prepend": Prepend,
    "simple-fusion": SimpleFusion,
    "representation": Representation,
    "none": FromScratch,
}


def variant(settings: ConditioningSettings, language_model: PreTrainedConfig) -> Variant:
    """The configured variant for a language model; its new parameters are initialised from torch's random state."""
    kind: Any = CLASSES[settings.variant]
    if VARIANTS[settings.variant].frozen:
        sizes = settings.decoder
        module: Variant = kind(language_model, sizes.d_model, sizes.layers, sizes.attention_heads, sizes.dropout)
    else:
        module = kind(language_model)
    return module
