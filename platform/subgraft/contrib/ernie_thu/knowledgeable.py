# mypy: allow-untyped-calls
"""ERNIE of Tsinghua (Zhang et al., ACL 2019): a BERT whose upper layers also read embeddings of the text's entities.

The lower layers are the textual encoder, the upper ones the knowledgeable encoder. As in the authors' code, the outputs
of an aggregator are added to its inputs and normalised, which equations 5 and 6 omit. So for a text without entities
the model computes the same as a BERT of all layers, and transformers loads it as that BERT.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertForSequenceClassification,
    BertModel,
    PreTrainedModel,
)
from transformers.initialization import no_init_weights
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions
from transformers.models.bert.modeling_bert import (
    BertAttention,
    BertEmbeddings,
    BertEncoder,
    BertLayer,
    BertOnlyMLMHead,
    BertPooler,
    BertPreTrainedModel,
    BertPreTrainingHeads,
)

from subgraft.modeling.families import NO_ENTITY


class KnowledgeableConfig(BertConfig):
    """A BERT's configuration, whose `num_hidden_layers` are the layers of both encoders.

    Attributes:
        knowledge_layers: The number of upper layers that read entities.
        entity_width: The width of entity embeddings and states.
        entity_heads: The number of heads of the entity attention.
        entity_count: The number of entities.
        entity_name_bytes: The size of their names in UTF-8, each followed by a line end.
    """

    model_type = "knowledgeable"

    knowledge_layers: int = 6
    entity_width: int = 100
    entity_heads: int = 4
    entity_count: int = 0
    entity_name_bytes: int = 0


class Entities(NamedTuple):
    """The M entities of each text, in order, padded on the right.

    states: [B, M, e].  places: int64 [B, M], the position of its token.  present: bool [B, M], False for padding.
    """

    states: Tensor
    places: Tensor
    present: Tensor

    @property
    def mask(self) -> Tensor:
        """The mask that is added to attention scores [B, 1, 1, M]."""
        lowest = torch.finfo(self.states.dtype).min
        return torch.zeros_like(self.present, dtype=self.states.dtype).masked_fill(~self.present, lowest)[:, None, None]


class KnowledgeableLayer(BertLayer):
    """A layer of the knowledgeable encoder: attention of tokens, attention of entities, and the aggregator.

    The aggregator of the last layer has no output for entities (equation 5, second line), which nothing would read.
    """

    def __init__(self, config: KnowledgeableConfig, layer_idx: int) -> None:
        super().__init__(config, layer_idx)
        entity_config = deepcopy(config)
        entity_config.hidden_size, entity_config.num_attention_heads = config.entity_width, config.entity_heads
        entity_config._attn_implementation = "eager"  # texts have few entities, or none
        self.entity_attention = BertAttention(entity_config, layer_idx=layer_idx)
        self.entity_inner = nn.Linear(config.entity_width, config.intermediate_size, bias=False)
        self.entity_output: nn.Linear | None = None
        if layer_idx + 1 < config.num_hidden_layers:
            self.entity_output = nn.Linear(config.intermediate_size, config.entity_width)
            self.entity_dropout = nn.Dropout(config.hidden_dropout_prob)
            self.entity_norm = nn.LayerNorm(config.entity_width, eps=config.layer_norm_eps)

    def forward(  # type: ignore[override]
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, entities: Entities | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """New states of tokens [B, T, d], and of entities [B, M, e] if there are any (equations 4 to 6)."""
        tokens, _ = self.attention(hidden_states, attention_mask)
        if entities is None:
            return self.feed_forward_chunk(tokens), None
        states, _ = self.entity_attention(entities.states, entities.mask)
        rows = torch.arange(len(states), device=states.device)[:, None]
        read = self.entity_inner(states) * entities.present[..., None]
        # A token and its entity share one inner state; for a token without an entity it is BERT's.
        inner = self.intermediate.dense(tokens).index_put((rows, entities.places), read, accumulate=True)
        inner = self.intermediate.intermediate_act_fn(inner)
        if self.entity_output is not None:
            written = self.entity_dropout(self.entity_output(inner[rows, entities.places]))
            states = self.entity_norm(written + states)
        return self.output(inner, tokens), states


class KnowledgeableEncoder(BertEncoder):
    """The layers of both encoders, and the table of entities, which is not trained."""

    def __init__(self, config: KnowledgeableConfig) -> None:
        super().__init__(config)
        first = config.num_hidden_layers - config.knowledge_layers
        for index in range(first, config.num_hidden_layers):
            self.layer[index] = KnowledgeableLayer(config, index)
        self.entities = nn.Buffer(torch.zeros(config.entity_count, config.entity_width))
        self.entity_names = nn.Buffer(torch.zeros(config.entity_name_bytes, dtype=torch.uint8))

    def forward(  # type: ignore[override]
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        entity_ids: Tensor | None = None,
        **others: Any,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """entity_ids: the entity of each token [B, T], NO_ENTITY for most; None for text without entities."""
        del others
        entities = None if entity_ids is None else self.embed(entity_ids)
        for layer in self.layer:
            if isinstance(layer, KnowledgeableLayer):
                hidden_states, states = layer(hidden_states, attention_mask, entities)
                entities = None if entities is None else entities._replace(states=states)
            else:
                hidden_states = layer(hidden_states, attention_mask)
        return BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=hidden_states)

    def embed(self, entity_ids: Tensor) -> Entities:
        """The entities of texts [B, T] with their embeddings."""
        aligned = entity_ids != NO_ENTITY
        max_entities = max(1, int(aligned.sum(dim=1).max()))
        places = aligned.int().argsort(dim=1, descending=True, stable=True)[:, :max_entities]
        present = aligned.gather(1, places)
        table = self.entities if len(self.entities) else self.entities.new_zeros(1, self.entities.shape[1])
        return Entities(table[entity_ids.gather(1, places).clamp(min=0)], places, present)


class KnowledgeableModel(BertModel):
    """Embeddings, both encoders, and optionally BERT's pooler."""

    config_class = KnowledgeableConfig

    def __init__(self, config: KnowledgeableConfig, add_pooling_layer: bool = True) -> None:
        BertPreTrainedModel.__init__(self, config)
        self.config = config
        self.gradient_checkpointing = False
        self.embeddings = BertEmbeddings(config)
        self.encoder = KnowledgeableEncoder(config)
        self.pooler = BertPooler(config) if add_pooling_layer else None
        self.post_init()


class _PredictsEntities:
    """The head that finds the entity of a token among those of its text."""

    bert: Any
    entity_head: nn.Linear

    def entity_logits(self, states: Tensor, candidates: Tensor) -> Tensor:
        """How well each candidate fits a token [N, C] (equation 8).

        Args:
            states: Top states of N tokens [N, d].
            candidates: Ids of the entities of each one's text [N, C], NO_ENTITY for padding, whose logits are -inf.
        """
        absent = candidates == NO_ENTITY
        vectors = self.bert.encoder.entities[candidates.clamp(min=0)]
        logits: Tensor = torch.einsum("ne,nce->nc", self.entity_head(states), vectors.to(states.dtype))
        return logits.float().masked_fill(absent, -torch.inf)


class KnowledgeableForMaskedLM(_PredictsEntities, BertForMaskedLM):
    """Predicts hidden tokens, and the entity of a token among those of its text."""

    config_class = KnowledgeableConfig

    def __init__(self, config: KnowledgeableConfig) -> None:
        BertPreTrainedModel.__init__(self, config)
        self.bert = KnowledgeableModel(config, add_pooling_layer=False)
        self.cls = BertOnlyMLMHead(config)
        self.entity_head = nn.Linear(config.hidden_size, config.entity_width)
        self.post_init()


class KnowledgeableForPreTraining(_PredictsEntities, BertForPreTraining):
    """Also predicts whether a segment follows another, from the pooled first state (section 3.4)."""

    config_class = KnowledgeableConfig

    def __init__(self, config: KnowledgeableConfig) -> None:
        BertPreTrainedModel.__init__(self, config)
        self.bert = KnowledgeableModel(config)
        self.cls = BertPreTrainingHeads(config)
        self.entity_head = nn.Linear(config.hidden_size, config.entity_width)
        self.post_init()


class KnowledgeableForSequenceClassification(BertForSequenceClassification):
    """Classifies texts, and marked entities of texts, by the first state."""

    config_class = KnowledgeableConfig

    def __init__(self, config: KnowledgeableConfig) -> None:
        BertPreTrainedModel.__init__(self, config)
        self.num_labels = config.num_labels
        self.config = config
        self.bert = KnowledgeableModel(config)
        rate = config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
        self.dropout = nn.Dropout(rate)
        self.classifier = nn.Linear(config.hidden_size, int(config.num_labels or 0))
        self.post_init()


# The class of transformers that reads text alone.
_TEXT_CLASSES: Mapping[type[PreTrainedModel], type[PreTrainedModel]] = {
    KnowledgeableForMaskedLM: BertForMaskedLM,
    KnowledgeableForPreTraining: BertForPreTraining,
    KnowledgeableForSequenceClassification: BertForSequenceClassification,
}


def text_part(model: PreTrainedModel) -> PreTrainedModel:
    """The BERT that reads text without entities as the model does; its weights are the model's own."""
    own = {*KnowledgeableConfig.__annotations__, "model_type", "architectures", "_name_or_path"}
    entries = {name: value for name, value in model.config.to_dict().items() if name not in own}
    with no_init_weights():
        kind = _TEXT_CLASSES[type(model)]
        bert: Any = kind(BertConfig(**entries, architectures=[kind.__name__]))
    weights = model.state_dict()
    bert.load_state_dict({name: weights[name] for name in bert.state_dict()}, assign=True)
    bert.tie_weights()
    bert.eval()
    result: PreTrainedModel = bert
    return result
