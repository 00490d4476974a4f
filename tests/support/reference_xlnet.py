"""XLNet's two streams in float64 numpy, position by position, as the paper writes them (Yang et al., 2019, section 2).

Each position attends to an explicit list of others: no mask, no shift of a matrix, no padding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray


class ReferenceXLNet:
    """The states of one sequence under an order of prediction."""

    def __init__(self, model: Any) -> None:
        """model: an XLNetLMHeadModel, of which only weights and sizes are read."""
        self._weights = {name: tensor.detach().double().numpy() for name, tensor in model.named_parameters()}
        self._layers, self._heads = model.config.n_layer, model.config.n_head
        self._size, self._epsilon = model.config.d_head, model.config.layer_norm_eps

    def log_likelihoods(
        self,
        tokens: Sequence[int],
        types: Sequence[int],
        order: Sequence[int],
        memory: Array | None = None,
        sign: int = 1,
    ) -> list[float]:
        """log p of each target, in their order (equation 3).

        order: the positions of the targets.  memory: states [L, m, d] right before the sequence, of segment 0.
        sign: -1 where the sequence is in reversed order.
        """
        _, queries = self.streams(tokens, types, order, memory, sign)
        table, bias = self._weights["transformer.word_embedding.weight"], self._weights["lm_loss.bias"]
        logits = {place: table @ queries[place] + bias for place in order}
        return [float(logits[place][tokens[place]] - _log_sum(logits[place])) for place in order]

    def streams(
        self,
        tokens: Sequence[int],
        types: Sequence[int],
        order: Sequence[int],
        memory: Array | None = None,
        sign: int = 1,
    ) -> tuple[list[Array], dict[int, Array]]:
        """The content states of all positions, and the query states of the targets."""
        context = [place for place in range(len(tokens)) if place not in order]
        remembered = 0 if memory is None else memory.shape[1]
        h = [self._weights["transformer.word_embedding.weight"][token] for token in tokens]
        g = dict.fromkeys(order, self._weights["transformer.mask_emb"][0, 0])
        for layer in range(self._layers):
            earlier = [] if memory is None else list(memory[layer])
            # Position and segment of everything that can be attended to, and its state.
            known = {place - remembered: (0, state) for place, state in enumerate(earlier)}
            known |= {place: (types[place], state) for place, state in enumerate(h)}
            before = [place for place in known if place < 0]

            def attend(place: int, state: Array, seen: Sequence[int], layer: int = layer, known: Any = known) -> Array:
                return self._layer(layer, place, types[place], state, [(j, *known[j]) for j in seen], sign)

            contents = []
            for place, state in enumerate(h):
                # z up to and with the position itself (the second line of the update in section 2.3).
                targets = order[: order.index(place) + 1] if place in order else []
                contents.append(attend(place, state, [*before, *context, *targets]))
            # z before the position (the first line).
            g = {
                place: attend(place, state, [*before, *context, *order[: order.index(place)]])
                for place, state in g.items()
            }
            h = contents
        return h, g

    def _layer(self, layer: int, place: int, segment: int, state: Array, seen: Sequence[Any], sign: int) -> Array:
        """Relative attention (appendix A.2), and the feed-forward layer."""
        own = {
            name.split(f"layer.{layer}.")[1]: each for name, each in self._weights.items() if f"layer.{layer}." in name
        }
        q, k, v, o, r = (own[f"rel_attn.{name}"] for name in "qkvor")
        vectors = []
        for head in range(self._heads):
            query = state @ q[:, head]
            scores = []
            for other, other_segment, other_state in seen:
                content = (query + own["rel_attn.r_w_bias"][head]) @ (other_state @ k[:, head])
                distance = _position(sign * (place - other), len(state))
                position = (query + own["rel_attn.r_r_bias"][head]) @ (distance @ r[:, head])
                relation = own["rel_attn.seg_embed"][int(segment != other_segment), head]
                scores.append(content + position + (query + own["rel_attn.r_s_bias"][head]) @ relation)
            weights = _softmax(np.array(scores) / math.sqrt(self._size))
            vectors.append(sum(w * (s @ v[:, head]) for w, (_, _, s) in zip(weights, seen, strict=True)))
        attended = sum(vector @ o[:, head].T for head, vector in enumerate(vectors))
        middle = self._norm(state + attended, own["rel_attn.layer_norm.weight"], own["rel_attn.layer_norm.bias"])
        inner = _gelu(own["ff.layer_1.weight"] @ middle + own["ff.layer_1.bias"])
        outer = own["ff.layer_2.weight"] @ inner + own["ff.layer_2.bias"]
        return self._norm(outer + middle, own["ff.layer_norm.weight"], own["ff.layer_norm.bias"])

    def _norm(self, state: Array, gain: Array, bias: Array) -> Array:
        normed: Array = (state - state.mean()) / np.sqrt(state.var() + self._epsilon) * gain + bias
        return normed


def _position(distance: int, size: int) -> Array:
    angles = distance / 10000 ** (np.arange(0, size, 2) / size)
    return np.concatenate([np.sin(angles), np.cos(angles)])


def _softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max())
    weights: Array = powers / powers.sum()
    return weights


def _log_sum(logits: Array) -> float:
    return float(logits.max() + np.log(np.exp(logits - logits.max()).sum()))


def _gelu(values: Array) -> Array:
    return np.array([0.5 * value * (1 + math.erf(value / math.sqrt(2))) for value in values])
