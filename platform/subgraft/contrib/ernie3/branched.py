# mypy: allow-untyped-calls
"""ERNIE 3 (Sun et al., 2021, section 3.1): a universal body with one branch for understanding and one for generation.

Layers are Transformer-XL's; relative positions are a learnt bias for each distance. Layers may read remembered states
of the document's previous segment. These are states of the same layer, not of the layer below, so the memory reaches
back further with every segment (the enhanced recurrence of ERNIE-Doc, Ding et al., ACL 2021, equation 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention
from transformers import BertConfig, PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput, SequenceClassifierOutput
from transformers.models.bert.modeling_bert import BertOnlyMLMHead

from subgraft.base.errors import UserError

# In the branch for understanding (nlu) tokens see the complete text; in that for generation (nlg), only earlier tokens.
BranchName = Literal["nlu", "nlg"]


class BranchedConfig(BertConfig):
    """A BERT's configuration of the universal body.

    Attributes:
        branch_layers, branch_width, branch_heads, branch_inner_width: The sizes of each branch.
    """

    model_type = "branched"

    branch_layers: int = 3
    branch_width: int = 256
    branch_heads: int = 4
    branch_inner_width: int = 1024


class SegmentMemory(NamedTuple):
    """The states of earlier segments that the layers remember.

    states: of each layer, the body's first [B, m, w].  present: bool [B, m], False for padding.
    """

    states: tuple[Tensor, ...]
    present: Tensor

    def last(self, count: int) -> SegmentMemory:
        """The last `count` states, at least one."""
        return SegmentMemory(tuple(each[:, -count:] for each in self.states), self.present[:, -count:])


class RecurrentLayer(GradientCheckpointingLayer):
    """A Transformer layer whose keys and values include those of remembered states."""

    def __init__(self, width: int, heads: int, inner: int, config: BertConfig) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.attended = (nn.Linear(width, width) for _ in range(4))
        self.attention_norm, self.output_norm = (nn.LayerNorm(width, eps=config.layer_norm_eps) for _ in range(2))
        self.inner, self.output = nn.Linear(width, inner), nn.Linear(inner, width)
        self.attention_dropout = float(config.attention_probs_dropout_prob)
        self.hidden_dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden: Tensor, bias: Tensor, memory: Tensor | None = None) -> Tensor:
        """New states [B, T, w]. bias: added to attention scores [B, heads, T, m + T].  memory: [B, m, w]."""
        context = hidden if memory is None else torch.cat([memory.detach().to(hidden.dtype), hidden], dim=1)
        query, key, value = (
            projection(states).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for projection, states in ((self.query, hidden), (self.key, context), (self.value, context))
        )
        rate = self.attention_dropout if self.training else 0.0
        attention = scaled_dot_product_attention(query, key, value, bias.to(query.dtype), rate)
        attended = self.attended(attention.transpose(1, 2).flatten(2))
        hidden = self.attention_norm(hidden + self.hidden_dropout(attended))
        result: Tensor = self.output_norm(hidden + self.hidden_dropout(self.output(gelu(self.inner(hidden)))))
        return result


class RecurrentStack(nn.Module):
    """Layers of one width that share a bias for each distance between two tokens, up to the longest segment."""

    def __init__(self, width: int, heads: int, inner: int, layers: int, config: BertConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList([RecurrentLayer(width, heads, inner, config) for _ in range(layers)])
        self.farthest = config.max_position_embeddings
        self.distance = nn.Embedding(2 * self.farthest + 1, heads)

    def forward(
        self, hidden: Tensor, visible: Tensor, memory: Sequence[Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The top states, and those after each layer. visible: bool [B, T, m + T].  memory: of each layer [B, m, w]."""
        bias = self._bias(visible)
        layer_states = []
        for index, layer in enumerate(self.layer):
            hidden = layer(hidden, bias, None if memory is None else memory[index])
            layer_states.append(hidden)
        return hidden, tuple(layer_states)

    def _bias(self, visible: Tensor) -> Tensor:
        """The bias of each distance, and that of invisible tokens [B, heads, T, m + T]."""
        length, total = visible.shape[1:]
        positions = torch.arange(total, device=visible.device)
        distances = positions[None] - positions[total - length :, None]
        bias = self.distance(distances.clamp(-self.farthest, self.farthest) + self.farthest).permute(2, 0, 1)
        masked: Tensor = bias[None].masked_fill(~visible[:, None], torch.finfo(bias.dtype).min)
        return masked


class Branch(nn.Module):
    """The layers for one kind of task, between projections from the body's width to the branch's and back."""

    def __init__(self, config: BranchedConfig) -> None:
        super().__init__()
        width = config.branch_width
        self.down, self.up = nn.Linear(config.hidden_size, width), nn.Linear(width, config.hidden_size)
        self.stack = RecurrentStack(width, config.branch_heads, config.branch_inner_width, config.branch_layers, config)


class BranchedPreTrainedModel(PreTrainedModel):
    """Initialisation, and the features of transformers that these models support."""

    config_class = BranchedConfig
    base_model_prefix = "branched"
    supports_gradient_checkpointing = True
    _supports_sdpa = True

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, RecurrentStack):
            nn.init.zeros_(module.distance.weight)


class BranchedModel(BranchedPreTrainedModel):
    """The body and both branches."""

    def __init__(self, config: BranchedConfig) -> None:
        super().__init__(config)
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.embedding_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.embedding_dropout = nn.Dropout(config.hidden_dropout_prob)
        sizes = config.hidden_size, config.num_attention_heads, config.intermediate_size, config.num_hidden_layers
        self.universal = RecurrentStack(*sizes, config)
        self.nlu, self.nlg = Branch(config), Branch(config)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.word_embeddings

    def set_input_embeddings(self, value: Any) -> None:
        self.word_embeddings = value

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        branch: BranchName = "nlu",
        memory: SegmentMemory | None = None,
        **others: Any,
    ) -> BaseModelOutput:
        """States [B, T, d] of a segment, by one branch, with the `memory` that the next segment may read.

        Args:
            input_ids: Tokens [B, T], or None.
            attention_mask: 0 for padding [B, T].
            inputs_embeds: Embeddings [B, T, d] in place of ids.
            branch: Which branch reads the body's states.
            memory: The memory of the previous segment, read by the same branch.
            others: Ignored, except `output_hidden_states`.

        Raises:
            UserError: The memory is that of another branch or batch.
        """
        embeddings = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        hidden = self.embedding_dropout(self.embedding_norm(embeddings))
        present = torch.ones(hidden.shape[:2], dtype=torch.bool, device=hidden.device)
        if attention_mask is not None:
            present = attention_mask.bool()
        branch_module: Branch = self.nlu if branch == "nlu" else self.nlg
        states = None if memory is None else memory.states
        if memory is not None:
            layers = len(self.universal.layer) + len(branch_module.stack.layer)
            if (len(memory.states), len(memory.present)) != (layers, len(hidden)):
                what = f"a memory of {len(memory.states)} layers and {len(memory.present)} texts"
                raise UserError(f"{what}, where one of {layers} layers and {len(hidden)} texts is needed")
        visible = _visible(present, None if memory is None else memory.present, forwards=branch == "nlg")
        depth = len(self.universal.layer)
        hidden, body_states = self.universal(hidden, visible, None if states is None else states[:depth])
        top, branch_states = branch_module.stack(
            branch_module.down(hidden), visible, None if states is None else states[depth:]
        )
        result = BaseModelOutput(last_hidden_state=branch_module.up(top))
        if others.get("output_hidden_states"):
            result["hidden_states"] = (embeddings, *body_states)
        remembered = SegmentMemory(tuple(each.detach() for each in (*body_states, *branch_states)), present)
        result.memory = remembered
        return result

    def layer_widths(self, branch: BranchName) -> list[int]:
        """The width of the states of each layer that a branch uses, the body's first."""
        own: Branch = self.nlu if branch == "nlu" else self.nlg
        body, narrow = len(self.universal.layer), len(own.stack.layer)
        return [self.config.hidden_size] * body + [self.config.branch_width] * narrow


def _visible(present: Tensor, remembered: Tensor | None, forwards: bool) -> Tensor:
    """The tokens, remembered ones first, that each token sees: bool [B, T, m + T]. A padding token sees itself."""
    length = present.shape[1]
    itself = torch.eye(length, dtype=torch.bool, device=present.device)
    seen = present[:, None].expand(-1, length, -1)
    if forwards:
        seen = seen & torch.ones_like(itself).tril()
    seen = seen | itself
    if remembered is None:
        return seen
    return torch.cat([remembered[:, None].expand(-1, length, -1), seen], dim=2)


class BranchedForMaskedLM(BranchedPreTrainedModel):
    """Predicts hidden tokens with the branch for understanding, and next tokens with the branch for generation."""

    _tied_weights_keys = {  # noqa: RUF012
        "cls.predictions.decoder.weight": "branched.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }

    def __init__(self, config: BranchedConfig) -> None:
        super().__init__(config)
        self.branched = BranchedModel(config)
        self.cls = BertOnlyMLMHead(config)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        projection: nn.Module = self.cls.predictions.decoder
        return projection

    def forward(self, input_ids: Tensor | None = None, **inputs: Any) -> MaskedLMOutput:
        """Logits [B, T, V]. inputs: as of `BranchedModel`."""
        outputs = self.branched(input_ids, **inputs)
        return MaskedLMOutput(logits=self.cls(outputs.last_hidden_state), hidden_states=outputs.hidden_states)


class BranchedForSequenceClassification(BranchedPreTrainedModel):
    """Classifies texts by the first state of the branch for understanding."""

    def __init__(self, config: BranchedConfig) -> None:
        super().__init__(config)
        self.branched = BranchedModel(config)
        rate = config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
        self.dense, self.dropout = nn.Linear(config.hidden_size, config.hidden_size), nn.Dropout(rate)
        self.classifier = nn.Linear(config.hidden_size, int(config.num_labels or 0))
        self.post_init()

    def forward(self, input_ids: Tensor | None = None, **inputs: Any) -> SequenceClassifierOutput:
        """Logits [B, labels]. inputs: as of `BranchedModel`."""
        first = self.branched(input_ids, **inputs).last_hidden_state[:, 0]
        return SequenceClassifierOutput(logits=self.classifier(self.dropout(self.dense(first).tanh())))
