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
# Parts of the names of what lies below the first layer: embeddings of tokens, positions and segments, and their norm.
_EMBEDS = re.compile(r"^(?:shared|wte|wpe|.*embed.*|(?:encoder|decoder)_input)$")


@dataclass(frozen=True)
class ParameterRates:
    """tables: parameters that are trained at a share of the learning rate, `of_tables`, of their own; at 0 not at all.

    layer_decay: each layer is trained at so much of the rate of the layer above it, whatever `tables` has at its own.
    """

    tables: Collection[Tensor] = ()
    of_tables: float | None = None
    layer_decay: float | None = None

    @classmethod
    def of(cls, settings: TrainingSettings, tables: Collection[Tensor]) -> ParameterRates:
        """tables: what `embedding_learning_rate` is for, and what `train: body` leaves as it is."""
        decay = settings.layer_decay if isinstance(settings, ModelTrainingSettings) else None
        rate = settings.rate_of_tables if isinstance(settings, FinetuneSettings) else None
        return cls(tables, None if rate is None else rate / settings.learning_rate, decay)

    def freeze(self) -> None:
        """Freeze the embeddings if their learning rate is zero: no gradient, no optimizer state."""
        if self.of_tables == 0:
            for table in self.tables:
                table.requires_grad_(False)

    def groups(self, module: nn.Module) -> list[dict[str, Any]]:
        """The trained parameters in groups for an optimizer; `factor` multiplies the learning rate of a group."""
        own = {id(table) for table in self.tables} if self.of_tables is not None else set()
        trained = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
        layers = Layers.of(name for name, _ in module.named_parameters())
        groups: dict[float, list[Tensor]] = {}
        for name, parameter in trained.items():
            if id(parameter) not in own:
                groups.setdefault(self._of_layer(layers, name), []).append(parameter)
        found = [{"params": parameters, "factor": factor} for factor, parameters in groups.items()]
        tables = [parameter for parameter in trained.values() if id(parameter) in own]
        return [*found, *([{"params": tables, "factor": self.of_tables}] if tables else [])]

    def _of_layer(self, layers: Layers, name: str) -> float:
        return 1.0 if self.layer_decay is None else float(self.layer_decay ** layers.below_top(name))


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
            if found := _LAYER.match(name):
                stacks[found[1]] = max(stacks.get(found[1], 0), int(found[2]) + 1)
        return cls(stacks)

    def below_top(self, name: str) -> int:
        """The number of layers between a parameter and the top of its stack.

        Embeddings lie below all layers, those that stacks share below the deeper one. Other parameters outside the
        layers, such as heads, count as the top.
        """
        if found := _LAYER.match(name):
            return self.stacks[found[1]] - 1 - int(found[2])
        if not any(_EMBEDS.match(part) for part in name.split(".")):
            return 0
        nearest = max((_shared_parts(name, stack) for stack in self.stacks), default=0)
        return max((size for stack, size in self.stacks.items() if _shared_parts(name, stack) == nearest), default=0)


def _shared_parts(name: str, stack: str) -> int:
    """The number of leading parts that two dotted names share."""
    count = 0
    for one, other in zip(name.split("."), stack.split("."), strict=False):
        if one != other:
            break
        count += 1
    return count
