# mypy: allow-untyped-calls
"""ERNIE of Tsinghua (Zhang et al., ACL 2019): a BERT that reads entities of a knowledge graph too.

transformers has no class for it: it loads the BERT of the same layers, which computes the same for text without
entities.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from subgraft.contrib.ernie_thu.settings import KnowledgeableSettings
from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.bert import Bert
from subgraft.modeling.families.heads import Head
from subgraft.modeling.families.model_parts import Config, Parameters

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from torch import nn
    from transformers import PreTrainedModel

    from subgraft.config.settings_base import HeadKind
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer


class Knowledgeable(Bert):
    """Its embeddings of entities are not trained, and not counted as parameters."""

    model_type = "knowledgeable"
    next_sentence_class = "KnowledgeableForPreTraining"
    objectives = KnowledgeableSettings.objectives

    def config_dict(self, settings: KnowledgeableSettings, encoder_size: int, decoder_size: int) -> dict[str, Any]:
        sizes = super().config_dict(settings, encoder_size, decoder_size)
        return {
            **sizes,
            self.layers_key: settings.layers + settings.knowledge_layers,
            "knowledge_layers": settings.knowledge_layers,
            "entity_width": settings.entity_width,
            "entity_heads": settings.entity_heads,
        }

    def take_inputs(self, model: PreTrainedModel, inputs: Mapping[str, Path]) -> None:
        from subgraft.contrib.ernie_thu.entity_table import EntityTable

        EntityTable.load(inputs["entities"]).into(model)

    def entity_ids(self, model: PreTrainedModel) -> Mapping[str, int]:
        from subgraft.contrib.ernie_thu.entity_table import EntityTable

        return EntityTable.of(model).ids

    def computed_numbers(self, config: Config) -> int:
        """The table of entities, and their names."""
        return int(config.get("entity_count", 0)) * int(config["entity_width"]) + int(
            config.get("entity_name_bytes", 0)
        )

    def body_parameters(self, config: Config) -> Parameters:
        total = super().body_parameters(config).total + self._entity_parameters(config)
        total += parameter_counts.linear(self.width(config), int(config["entity_width"]))
        return Parameters(total, total)

    def headed_body_parameters(self, config: Config, head: Head) -> Parameters:
        total = super().headed_body_parameters(config, head).total + self._entity_parameters(config)
        return Parameters(total, total)

    def _entity_parameters(self, config: Config) -> int:
        """Parameters of the entity attentions and of the aggregators; the last aggregator outputs no entities."""
        narrow, inner, layers = int(config["entity_width"]), self.inner_width(config), int(config["knowledge_layers"])
        attention = parameter_counts.attention(narrow) + parameter_counts.norm(narrow)
        reads = parameter_counts.linear(narrow, inner, bias=False)
        writes = parameter_counts.linear(inner, narrow) + parameter_counts.norm(narrow)
        return layers * (attention + reads) + (layers - 1) * writes

    def unused_parameters(self, model: nn.Module, *, forwards: bool) -> Iterable[nn.Parameter]:
        """The parameters that only text with entities uses."""
        return [each for name, each in model.named_parameters() if ".entity_" in f".{name}"]

    def in_words(self, config: Config) -> str:
        return f"{super().in_words(config)}, {config['knowledge_layers']} of which read entities"

    def model_class(self) -> type[PreTrainedModel]:
        from subgraft.contrib.ernie_thu.knowledgeable import KnowledgeableForMaskedLM

        return KnowledgeableForMaskedLM

    def model_class_with_next_sentence(self) -> type[PreTrainedModel]:
        from subgraft.contrib.ernie_thu.knowledgeable import KnowledgeableForPreTraining

        return KnowledgeableForPreTraining

    def head_class(self, kind: HeadKind) -> type[PreTrainedModel] | None:
        from subgraft.contrib.ernie_thu.knowledgeable import KnowledgeableForSequenceClassification

        return KnowledgeableForSequenceClassification if kind in ("sequence", "choice") else None

    def assembled(self, config: Config) -> dict[str, Any]:
        """The configuration of an encoder-decoder that is assembled from its text part alone."""
        return super().assembled(as_bert(config))

    def assemble(self, model: PreTrainedModel, tokenizer: Tokenizer, seed: int) -> PreTrainedModel:
        return super().assemble(self.for_transformers(model), tokenizer, seed)

    def for_transformers(self, model: PreTrainedModel) -> PreTrainedModel:
        """Its text part: a BERT of all layers."""
        from subgraft.contrib.ernie_thu.knowledgeable import text_part

        return text_part(model)


def as_bert(config: Config) -> dict[str, Any]:
    """The configuration of its text part."""
    own = ("knowledge_layers", "entity_width", "entity_heads", "entity_count", "entity_name_bytes", "architectures")
    return {name: value for name, value in config.items() if name not in own} | {"model_type": Bert.model_type}
