# mypy: allow-untyped-calls
"""An mBART whose encoder also reads previous sentences: hierarchical attention (Miculicich et al., EMNLP 2018, sec. 2).

Only the encoder has context ("HAN encoder"); the decoder sees only the source sentence. Previous sentences are encoded
by the same encoder, one by one and without gradients. So they train only the attention to them, and the encoder is
trained on the source sentence.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import relu, scaled_dot_product_attention
from transformers import MBartConfig, MBartForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.mbart.modeling_mbart import MBartEncoder, MBartModel, MBartPreTrainedModel

# The initial bias of the gate: a token's new state is 0.88 of its own state and 0.12 of its context.
_OWN_STATE = 2.0


class ContextMBartConfig(MBartConfig):
    """An mBART's configuration.

    Attributes:
        context_sentences: The number of previous sentences that are read.
        context_end_id: The token that ends each sentence of a row.
    """

    model_type = "context_mbart"

    context_sentences: int = 3
    context_end_id: int = 2


class MultiHead(nn.Module):
    """Scaled dot-product attention in several heads (Vaswani et al., 2017)."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.rate = heads, dropout
        self.query, self.key, self.value, self.attended = (nn.Linear(width, width) for _ in range(4))

    def forward(self, query: Tensor, read: Tensor, seen: Tensor) -> Tensor:
        """States [N, T, d] for queries [N, T, d] over `read` [N, L, d], where `seen` [N, L] is True."""
        parts = ((self.query, query), (self.key, read), (self.value, read))
        q, k, v = (of(states).unflatten(-1, (self.heads, -1)).transpose(1, 2) for of, states in parts)
        rate = self.rate if self.training else 0.0
        attended = scaled_dot_product_attention(q, k, v, seen[:, None, None], rate)
        result: Tensor = self.attended(attended.transpose(1, 2).flatten(2))
        return result


class HierarchicalAttention(nn.Module):
    """Each token attends to the words of each previous sentence, and then to the sentences; a gate adds the result.

    With h of a token and H_j of the words of sentence j:

        s_j = norm(MultiHead(f_w(h), H_j));  d = norm(FFN(MultiHead(f_s(h), s)));  λ = σ(W_h h + W_d d + b)

    and the new state is λ h + (1 - λ) d. Without previous sentences, it is h.
    """

    def __init__(self, width: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.word_query, self.sentence_query = nn.Linear(width, width), nn.Linear(width, width)
        self.words, self.sentences = (MultiHead(width, heads, dropout) for _ in range(2))
        self.word_norm, self.sentence_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inner, self.outer = nn.Linear(width, inner), nn.Linear(inner, width)
        self.gate_of_state, self.gate_of_context = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.gate_bias = nn.Parameter(torch.full((width,), _OWN_STATE))
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor, context: Tensor, words: Tensor) -> Tensor:
        """New states [B, T, d].

        Args:
            states: the states of the source sentence [B, T, d].
            context: the states of n previous sentences [B, n, L, d].
            words: bool [B, n, L], False for padding. A sentence without words is ignored.
        """
        rows, sentences, length = len(states), context.shape[1], states.shape[1]
        present = words.any(2)
        # If there is nothing to attend to, everything is visible, because a softmax over nothing is NaN.
        seen_words = words | ~present[..., None]
        seen_sentences = present | ~present.any(1, keepdim=True)
        query = self.word_query(states)[:, None].expand(-1, sentences, -1, -1).flatten(0, 1)
        of_words = self.words(query, context.flatten(0, 1), seen_words.flatten(0, 1))
        of_sentences = self.word_norm(of_words).unflatten(0, (rows, sentences)).transpose(1, 2).flatten(0, 1)
        query = self.sentence_query(states).flatten(0, 1)[:, None]
        attended = self.sentences(query, of_sentences, seen_sentences.repeat_interleave(length, 0))
        read = self.sentence_norm(self.outer(self.dropout(relu(self.inner(attended))))).reshape(states.shape)
        gate = torch.sigmoid(self.gate_of_state(states) + self.gate_of_context(read) + self.gate_bias)
        mixed = gate * states + (1 - gate) * read
        return torch.where(present.any(1)[:, None, None], mixed, states)


class Sentences(NamedTuple):
    """The sentences of rows: the source sentence, own [B, T] with own_mask, and previous ones, before [B, n, L] with
    words, bool."""

    own: Tensor
    own_mask: Tensor
    before: Tensor
    words: Tensor

    @classmethod
    def of(cls, input_ids: Tensor, attention_mask: Tensor, padding: int, end: int) -> Sentences:
        """Split rows [B, S] of previous sentences, each with an end token, the source sentence, and padding.

        attention_mask is 1 only for the source sentence, to which the decoder attends.
        """
        own = attention_mask.bool()
        earlier = (input_ids != padding) & ~own
        columns = torch.arange(input_ids.shape[1], device=input_ids.device).expand_as(input_ids)
        ends = earlier & (input_ids == end)
        number = ends.cumsum(1) - ends.long()
        begins = torch.where(ends, columns + 1, 0).cummax(1).values.roll(1, 1)
        begins[:, 0] = 0
        places = columns - begins
        row = torch.arange(len(input_ids), device=input_ids.device)[:, None].expand_as(input_ids)
        count = int(number[earlier].max()) + 1 if earlier.any() else 1
        longest = int(places[earlier].max()) + 1 if earlier.any() else 1
        before = input_ids.new_full((len(input_ids), count, longest), padding)
        before[row[earlier], number[earlier], places[earlier]] = input_ids[earlier]
        words = torch.zeros_like(before, dtype=torch.bool)
        words[row[earlier], number[earlier], places[earlier]] = True
        lengths = own.sum(1)
        own_mask = columns[:, : int(lengths.max())] < lengths[:, None]
        alone = input_ids.new_full(own_mask.shape, padding)
        alone[own_mask] = input_ids[own]
        return cls(alone, own_mask, before, words)


class ContextMBartEncoder(MBartEncoder):
    """mBART's encoder, whose top states attend to those of previous sentences."""

    config_class = ContextMBartConfig

    def __init__(self, config: ContextMBartConfig) -> None:
        super().__init__(config)
        sizes = config.d_model, config.encoder_attention_heads, config.encoder_ffn_dim, config.dropout
        self.context = HierarchicalAttention(*sizes)
        self.post_init()

    def forward(self, input_ids: Any = None, attention_mask: Any = None, **rest: Any) -> Any:
        """States [B, S, d] of rows in the form of `Sentences.of`; the states of previous sentences are zero.

        Without a mask, or with `inputs_embeds`, rows are single sentences.
        """
        if input_ids is None or attention_mask is None:
            return super().forward(input_ids=input_ids, attention_mask=attention_mask, **rest)
        assert self.padding_idx is not None  # an mBART has a padding token
        padding, end = int(self.padding_idx), int(self.config.context_end_id)
        read = Sentences.of(input_ids, attention_mask, padding, end)
        # The pass with gradients comes first, because autocast caches weights that were cast without gradients.
        own = super().forward(input_ids=read.own, attention_mask=read.own_mask.long()).last_hidden_state
        states = self.context(own, self._earlier(read, own), read.words)
        placed = states.new_zeros(*input_ids.shape, states.shape[-1])
        placed[attention_mask.bool()] = states[read.own_mask]
        return BaseModelOutput(last_hidden_state=placed)

    @torch.no_grad()
    def _earlier(self, read: Sentences, own: Tensor) -> Tensor:
        """The states of previous sentences [B, n, L, d]."""
        states, present = own.new_zeros(*read.before.shape, own.shape[-1]), read.words.any(2)
        if present.any():
            ids, mask = read.before[present], read.words[present].long()
            states[present] = super().forward(input_ids=ids, attention_mask=mask).last_hidden_state.to(own.dtype)
        return states


class ContextMBartModel(MBartModel):
    """mBART's model with this encoder."""

    config_class = ContextMBartConfig

    def __init__(self, config: ContextMBartConfig) -> None:
        super().__init__(config)
        self.encoder = ContextMBartEncoder(config)
        self.post_init()


class ContextMBartForConditionalGeneration(MBartForConditionalGeneration):
    """Translation of sentences in the context of those before them."""

    config_class = ContextMBartConfig

    def __init__(self, config: ContextMBartConfig) -> None:
        MBartPreTrainedModel.__init__(self, config)
        self.model = ContextMBartModel(config)
        self.final_logits_bias = nn.Buffer(torch.zeros((1, config.vocab_size)))
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.post_init()
