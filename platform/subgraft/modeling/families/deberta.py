# mypy: allow-untyped-calls
"""DeBERTa-v2 and DeBERTa-v3 (He et al., ICLR 2021 and 2023): attention by relative positions.

transformers has two heads for it, and config.json rarely says which: published weights have `lm_predictions`, which
predicts by the embeddings themselves; models that transformers trains have BERT's, `cls.predictions` (`legacy: true`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from subgraft.base.errors import UserError
from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.encoder_only import EncoderOnly
from subgraft.modeling.families.family import ITS_VOCABULARY
from subgraft.modeling.families.heads import is_headed
from subgraft.modeling.families.model_parts import Config, Side, Tables

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from subgraft.config.settings_base import SideName


class DebertaV2(EncoderOnly):
    """Taken from checkpoints only. transformers has no decoder of this kind, so no encoder-decoder is made of it."""

    model_type = "deberta-v2"
    transformers_class = "DebertaV2ForMaskedLM"
    head, transforming = "cls.predictions", "transform"
    head_dropout_keys = ("cls_dropout",)
    attention = ("query_proj", "key_proj", "value_proj", "attention.output.dense")

    def check(self, config: Config) -> None:
        """Raises UserError for embeddings narrower than hidden states, which transformers' newer head cannot have."""
        if self.embedding_width(config) != self.width(config):
            what = "this deberta-v2 model has embeddings narrower than its hidden states, which is not supported"
            raise UserError(what, hint=ITS_VOCABULARY)

    def completed(self, config: Config, weights: Iterable[str]) -> Config:
        """Set `legacy` by the head that the weights have."""
        newer = any(name.startswith("lm_predictions.") for name in weights)
        return {**config, "legacy": not newer}

    def stack_parameters(self, config: Config, layer: Callable[[int, int], int]) -> int:
        width, inner, layers = self.width(config), self.inner_width(config), int(config[self.layers_key])
        norm = parameter_counts.norm(width)
        rows = config.get("type_vocab_size", 0)
        rows += config[self.positions_key] if config.get("position_biased_input", True) else 0
        total = rows * width + norm + layers * layer(width, inner)
        if config.get("relative_attention"):
            kinds = config.get("pos_att_type") or []  # in older files a text
            kinds = {kind.strip() for kind in (kinds.lower().split("|") if isinstance(kinds, str) else kinds)}
            own = 0 if config.get("share_att_key") else len({"c2p", "p2c"} & kinds)
            total += self._relative_rows(config) * width + layers * own * parameter_counts.linear(width, width)
        total += norm if "layer_norm" in str(config.get("norm_rel_ebd", "none")).lower() else 0
        kernel = config.get("conv_kernel_size", 0)
        total += width * (kernel * width // config.get("conv_groups", 1) + 1) + norm if kernel > 0 else 0
        return int(total)

    def has_segments(self, config: Config) -> bool:
        return int(config.get("type_vocab_size", 0)) > 1

    def _relative_rows(self, config: Config) -> int:
        """Rows of the embeddings of relative positions: buckets, or distances, before and after."""
        distances = config.get("max_relative_positions", -1)
        distances = distances if distances > 0 else config[self.positions_key]
        buckets = config.get("position_buckets", -1)
        return int(2 * (buckets if buckets > 0 else distances))

    def side(self, model: PreTrainedModel, name: SideName) -> Side:
        """The newer head predicts by the embeddings themselves and has a bias of its own."""
        if is_headed(model) or model.config.legacy or name not in self.sides or name == "encoder":
            return super().side(model, name)
        table: Any = self.input_table(model, name)
        head = _newer_head(model)
        return Side(name, table, table, head.bias, True, model.config.pad_token_id, self.transform(model))

    def transform(self, model: PreTrainedModel) -> Callable[[Tensor], Tensor] | None:
        if model.config.legacy:
            return super().transform(model)
        head = _newer_head(model)
        return lambda states: head.LayerNorm(head.transform_act_fn(head.dense(states)))

    def replace_tables(self, model: PreTrainedModel, tables: Mapping[SideName, Tables]) -> PreTrainedModel:
        if model.config.legacy:
            return super().replace_tables(model, tables)
        from torch import nn

        bias = tables["decoder"].bias if "decoder" in tables else None
        replaced = super().replace_tables(model, {name: replace(each, bias=None) for name, each in tables.items()})
        if bias is not None:
            _newer_head(replaced).bias = nn.Parameter(bias.detach())
        return replaced

    def rename_bias(self, model: PreTrainedModel, tied: bool) -> None:
        if model.config.legacy:
            super().rename_bias(model, tied)


def _newer_head(model: PreTrainedModel) -> Any:
    return model.get_submodule("lm_predictions.lm_head")
