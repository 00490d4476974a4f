# mypy: allow-untyped-calls
"""ERNIE 3 (Sun et al., 2021): a universal body with a branch for understanding and one for generation.

transformers has no class for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from subgraft.base.errors import UserError
from subgraft.contrib.ernie3.settings import BranchedSettings
from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.bert import Bert
from subgraft.modeling.families.heads import Head
from subgraft.modeling.families.model_parts import Config, Parameters, Projection

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import nn
    from transformers import PreTrainedModel

    from subgraft.config.settings_base import HeadKind


class Branched(Bert):
    """One branch predicts hidden tokens and labels, the other one next tokens. Both share the embeddings."""

    model_type = "branched"
    objectives = BranchedSettings.objectives
    stack_class = decoder_class = next_sentence_class = None
    memory = "subgraft.contrib.ernie3.recurrence:RecurrentObjective"
    forwards_inputs = {"branch": "nlg"}  # noqa: RUF012

    def config_dict(self, settings: BranchedSettings, encoder_size: int, decoder_size: int) -> dict[str, Any]:
        return {
            **super().config_dict(settings, encoder_size, decoder_size),
            "branch_layers": settings.branch_layers,
            "branch_width": settings.branch_width,
            "branch_heads": settings.branch_heads,
            "branch_inner_width": settings.branch_ffn_dim,
        }

    def has_segments(self, config: Config) -> bool:
        return False

    def body_parameters(self, config: Config) -> Parameters:
        total = self._stack_parameters(config) + self.head_parameters(config)
        return Parameters(total, total)

    def headed_body_parameters(self, config: Config, head: Head) -> Parameters:
        total = self._stack_parameters(config) + self.classifier_parameters(config, head)
        return Parameters(total, total)

    def _stack_parameters(self, config: Config) -> int:
        """Parameters of the body and of both branches, each of which has a bias for every distance."""
        width, narrow = self.width(config), int(config["branch_width"])
        distances = 2 * int(config[self.positions_key]) + 1

        def stack(width: int, inner: int, layers: int, heads: int) -> int:
            return layers * parameter_counts.encoder_layer(width, inner) + distances * heads

        body = stack(width, self.inner_width(config), int(config[self.layers_key]), int(config[self.heads_key]))
        sizes = (int(config[f"branch_{name}"]) for name in ("inner_width", "layers", "heads"))
        branch = stack(narrow, *sizes)
        branch += parameter_counts.linear(width, narrow) + parameter_counts.linear(narrow, width)
        return parameter_counts.norm(width) + body + 2 * branch

    def projections(self, config: Config) -> list[Projection]:
        """Those of the body and of both branches."""
        names, inner = ("query", "key", "value", "attended"), ("inner", "output")
        body = self.width(config), self.inner_width(config), int(config[self.layers_key])
        branch = int(config["branch_width"]), int(config["branch_inner_width"]), 2 * int(config["branch_layers"])
        return [
            *parameter_counts.projections(names, inner, *body),
            *parameter_counts.projections(names, inner, *branch),
        ]

    def unused_parameters(self, model: nn.Module, *, forwards: bool) -> Iterable[nn.Parameter]:
        """Those of the other branch."""
        body: Any = model.base_model
        other: nn.Module = body.nlu if forwards else body.nlg
        return other.parameters()

    def in_words(self, config: Config) -> str:
        branch = f"{config['branch_layers']} layers of width {config['branch_width']}"
        return f"{self.model_type}, {self.layers(config, 'encoder')} layers of width {self.width(config)}, 2 × {branch}"

    def model_class(self) -> type[PreTrainedModel]:
        from subgraft.contrib.ernie3.branched import BranchedForMaskedLM

        return BranchedForMaskedLM

    def head_class(self, kind: HeadKind) -> type[PreTrainedModel] | None:
        from subgraft.contrib.ernie3.branched import BranchedForSequenceClassification

        return BranchedForSequenceClassification if kind in ("sequence", "choice") else None

    def for_transformers(self, model: PreTrainedModel) -> PreTrainedModel:
        """Raises UserError: there is no such part."""
        raise UserError(
            "transformers has no class for a model with two branches",
            hint="`subgraft predict` and `subgraft.predict` use it.",
        )
