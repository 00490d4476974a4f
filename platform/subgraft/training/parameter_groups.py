"""Parameter groups of an optimizer: embeddings with their own learning rate, and layer-wise decay of the others."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from subgraft.config.training import FinetuneSettings, ModelTrainingSettings, TrainingSettings

# A layer's number in a parameter's name, as transformers writes it: layers.3, layer.3, h.3 (GPT-2), block.3 (T5).
_LAYER = re.compile(r"^(.*?)\.(?:layers|layer|h|block)\.(\d+)\.")
# Names of the modules below the first layer: embeddings of tokens, positions and segments, and their norm.
_EMBEDS = re.compile(r"^(?:shared|wte|wpe|mask_emb|.*embed.*|(?:encoder|decoder)_input)$")


@dataclass(frozen=True)
class ParameterRates:
    """The learning rates of a model's parameters.

    Attributes:
        embeddings: The parameters with a separate learning rate.
        embedding_factor: `embedding_learning_rate` as a multiple of `learning_rate`; 0 freezes the embeddings.
        layer_decay: Each layer's learning rate as a multiple of that of the layer above; not for `embeddings`.
        outer_layers: Layers at either end of each stack that are trained; None for all.
    """

    embeddings: Collection[Tensor] = ()
    embedding_factor: float | None = None
    layer_decay: float | None = None
    outer_layers: int | None = None

    @classmethod
    def of(cls, settings: TrainingSettings, embeddings: Collection[Tensor]) -> ParameterRates:
        """The configured rates; `embeddings` have `embedding_learning_rate`, or are frozen by `train: body`."""
        decay = settings.layer_decay if isinstance(settings, ModelTrainingSettings) else None
        if not isinstance(settings, FinetuneSettings):
            return cls(embeddings, None, decay)
        rate = settings.applied_embedding_learning_rate
        factor = None if rate is None else rate / settings.learning_rate
        return cls(embeddings, factor, decay, settings.outer_layers)

    def freeze(self, module: nn.Module) -> None:
        """Freeze inner layers, and embeddings whose learning rate is zero: no gradient, no optimizer state."""
        frozen = list(self.embeddings) if self.embedding_factor == 0 else []
        if self.outer_layers is not None:
            layers = Layers.of(name for name, _ in module.named_parameters())
            frozen += [p for name, p in module.named_parameters() if layers.is_inner(name, self.outer_layers)]
        for parameter in frozen:
            parameter.requires_grad_(False)

    def groups(self, module: nn.Module) -> list[dict[str, Any]]:
        """The parameter groups of an optimizer. A group's learning rate is multiplied by its `learning_rate_factor`."""
        embedding_ids = {id(embedding) for embedding in self.embeddings} if self.embedding_factor is not None else set()
        trained = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
        layers = Layers.of(name for name, _ in module.named_parameters())
        groups: dict[float, list[Tensor]] = {}
        for name, parameter in trained.items():
            if id(parameter) not in embedding_ids:
                factor = 1.0 if self.layer_decay is None else float(self.layer_decay ** layers.below_top(name))
                groups.setdefault(factor, []).append(parameter)
        if embeddings := [parameter for parameter in trained.values() if id(parameter) in embedding_ids]:
            assert self.embedding_factor is not None
            return [*_groups(groups), {"params": embeddings, "learning_rate_factor": self.embedding_factor}]
        return _groups(groups)


def _groups(parameters: Mapping[float, list[Tensor]]) -> list[dict[str, Any]]:
    return [{"params": each, "learning_rate_factor": factor} for factor, each in parameters.items()]


@dataclass(frozen=True)
class Layers:
    """The stacks of layers in a model: the prefix of their parameters' names, and their number of layers.

    Encoder and decoder are a stack each, and the top layer of each has the full learning rate (Yang et al. 2019, XLNet,
    appendix A.4: layer m of M has α^(M-m)).
    """

    stacks: Mapping[str, int]

    @classmethod
    def of(cls, names: Iterable[str]) -> Layers:
        stacks: dict[str, int] = {}
        for name in names:
            if match := _LAYER.match(name):
                stacks[match[1]] = max(stacks.get(match[1], 0), int(match[2]) + 1)
        return cls(stacks)

    def is_inner(self, name: str, outer: int) -> bool:
        """Whether a parameter is of a layer that is not among the first and last `outer` ones of its stack."""
        match = _LAYER.match(name)
        return match is not None and outer <= int(match[2]) < self.stacks[match[1]] - outer

    def below_top(self, name: str) -> int:
        """The number of layers between a parameter and the top of its stack.

        Embeddings lie below all layers; embeddings that stacks share lie below the deepest stack. Other parameters
        outside the layers, such as heads, belong to the top.
        """
        if match := _LAYER.match(name):
            return self.stacks[match[1]] - 1 - int(match[2])
        if not any(_EMBEDS.match(part) for part in name.split(".")):
            return 0
        nearest = max((_shared_parts(name, stack) for stack in self.stacks), default=0)
        return max((size for stack, size in self.stacks.items() if _shared_parts(name, stack) == nearest), default=0)


def _shared_parts(name: str, stack: str) -> int:
    """The number of leading parts that two dotted names share."""
    count = 0
    for part, other in zip(name.split("."), stack.split("."), strict=False):
        if part != other:
            break
        count += 1
    return count
