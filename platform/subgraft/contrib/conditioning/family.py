# mypy: allow-untyped-calls
"""A decoder-only language model with a source, which need not be text (Ziegler et al., 2019): see `conditioning`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from subgraft.base.errors import UserError
from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.decoder_only import DecoderOnly
from subgraft.modeling.families.model_parts import Config, Parameters, Projection, Tables, TableSize

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedConfig, PreTrainedModel

    from subgraft.config.settings_base import SideName
    from subgraft.modeling.conditioning.copying import TargetStates
    from subgraft.modeling.conditioning.settings import ConditioningSettings, SourceSettings
    from subgraft.modeling.conditioning.variants.variant import PartCounts, StackSettings, Variant


class Conditional(DecoderOnly):
    """Its only side is that of the language model. config.json has the language model's configuration as an entry.

    The source encoder and the variant's new parameters do not depend on the vocabulary.

    language_models: the supported families of the language model.
    """

    model_type = "conditional"
    objectives = frozenset({"conditioned"})
    has_source = True

    def __init__(self, language_models: Iterable[DecoderOnly]) -> None:
        self._language_models = {family.model_type: family for family in language_models}

    def _family(self, config: Config) -> DecoderOnly:
        """The language model's family."""
        return self._language_models[_language_model_config(config)["model_type"]]

    def check(self, config: Config) -> None:
        own = config.get("language_model")
        if not isinstance(own, Mapping) or own.get("model_type") not in self._language_models:
            raise UserError(f"a language model with a source must be one of: {', '.join(self._language_models)}")
        _settings(config)

    def position_limit(self, config: Config) -> int | None:
        limit, settings = self._family(config).position_limit(_language_model_config(config)), _settings(config)
        prefix = _max_source_rows(settings.source) if _variant(config).in_input else 0
        return None if limit is None else max(0, limit - prefix)

    def depth(self, config: Config) -> int:
        return self._family(config).depth(_language_model_config(config))

    def width(self, config: Config) -> int:
        return self._family(config).width(_language_model_config(config))

    def inner_width(self, config: Config) -> int:
        return self._family(config).inner_width(_language_model_config(config))

    def key_width(self, config: Config) -> int:
        return self._family(config).key_width(_language_model_config(config))

    def weight_scale(self, config: Config) -> float:
        return self._family(config).weight_scale(_language_model_config(config))

    def vocabulary_sizes(self, config: Config) -> dict[SideName, int]:
        return self._family(config).vocabulary_sizes(_language_model_config(config))

    def with_vocabularies(self, config: Config, sizes: Mapping[SideName, int]) -> dict[str, Any]:
        return {
            **config,
            "language_model": self._family(config).with_vocabularies(_language_model_config(config), sizes),
        }

    def table_sizes(self, config: Config) -> list[TableSize]:
        return self._family(config).table_sizes(_language_model_config(config))

    def projections(self, config: Config) -> list[Projection]:
        return self._family(config).projections(_language_model_config(config))

    def body_parameters(self, config: Config) -> Parameters:
        """Those of the language model, and those that the variant, the source encoder and the copy head add."""
        body, settings = self._family(config).body_parameters(_language_model_config(config)), _settings(config)
        source, copying, width = settings.source, settings.copying, self.width(config)
        counts = _part_counts(settings.decoder, width, self.depth(config), self.key_width(config))
        new = _variant(config).parameters(counts) + _source_parameters(settings, width)
        if copying is not None:
            new += parameter_counts.linear(width, width) + parameter_counts.linear(width, 1)
            new += 0 if copying.threshold is None else parameter_counts.linear(width, 1)
        trained = new - (source.fixed if source.kind == "pretrained-text" else 0)
        return Parameters(body.total + new, trained if _variant(config).frozen else body.trained + trained)

    def parameters(self, config: Config, frozen: Iterable[SideName] = ()) -> Parameters:
        """The embeddings of a frozen language model are frozen too."""
        return super().parameters(config, self.sides if _variant(config).frozen else frozen)

    def in_words(self, config: Config) -> str:
        language_model = self._family(config).in_words(_language_model_config(config))
        return f"{language_model}, with a source by {_settings(config).variant}"

    def model_class(self) -> type[PreTrainedModel]:
        from subgraft.contrib.conditioning.conditional_model import ConditionalModel

        return ConditionalModel

    def post_init(self, model: PreTrainedModel) -> None:
        self._family(model.config.to_dict()).post_init(model.language_model)  # type: ignore[arg-type]
        model.config.language_model._name_or_path = ""

    def side_config(self, model: PreTrainedModel, name: SideName) -> PreTrainedConfig:
        config: PreTrainedConfig = model.config.language_model
        return config

    def replace_tables(self, model: PreTrainedModel, tables: Mapping[SideName, Tables]) -> PreTrainedModel:
        replaced = super().replace_tables(model, tables)
        replaced.train(model.training)  # freezes the new embeddings of a frozen language model
        return replaced

    def source(self, config: Config) -> SourceSettings:
        return _settings(config).source

    def selects(self, config: Config) -> bool:
        copying = _settings(config).copying
        return copying is not None and copying.threshold is not None

    def states_with_source(self, model: nn.Module, source: Tensor, mask: Tensor, **inputs: Any) -> TargetStates:
        conditional: Any = model
        inputs.pop("attention_mask", None)  # padding follows the target, and the mask is causal
        states: TargetStates = conditional.target_states(conditional.read(source, mask), **inputs)
        return states

    def pretrained_stack(self, model: nn.Module) -> nn.Module | None:
        conditional: Any = model
        return conditional.language_model if _variant(conditional.config.to_dict()).pretrained else None


def with_source(config: Config, settings: ConditioningSettings) -> dict[str, Any]:
    """config.json of a language model with a source: all values that determine its parameters."""
    return {
        "model_type": Conditional.model_type,
        "language_model": dict(config),
        "conditioning": settings.model_dump(mode="json"),
    }


def _language_model_config(config: Config) -> Config:
    """The configuration of the language model, which is also its side's."""
    own: Config = config.get("language_model", config)
    return own


def _settings(config: Config) -> ConditioningSettings:
    """The settings in config.json. Raises UserError if they are invalid."""
    from pydantic import ValidationError

    from subgraft.modeling.conditioning.settings import ConditioningSettings

    try:
        return ConditioningSettings.model_validate(config.get("conditioning"))
    except ValidationError as error:
        first = error.errors()[0]
        entry = ".".join(("conditioning", *map(str, first["loc"])))
        raise UserError(f"invalid source in config.json: {entry}: {first['msg']}") from error


def _max_source_rows(source: SourceSettings) -> int:
    """The maximum number of states of a source."""
    if source.kind == "class":
        return source.vectors
    return (source.rows or 0) if source.kind == "features" else source.max_length


def _variant(config: Config) -> Variant:
    from subgraft.modeling.conditioning.variants.registry import VARIANTS

    return VARIANTS[_settings(config).variant]


def _part_counts(small: StackSettings, width: int, depth: int, key_width: int) -> PartCounts:
    """The parameter counts of the parts of variants.

    Args:
        small: the settings of the decoder that reads the source.
        width: the width of the language model.
        depth: its number of layers.
        key_width: the width of its keys.
    """
    from subgraft.modeling.conditioning.variants.variant import PartCounts

    own, linear = small.d_model, parameter_counts.linear
    # Keys and values of the source are projected from the language model's width.
    layer = parameter_counts.decoder_layer(own, 4 * own) - 2 * linear(own, own) + linear(width, 2 * own)
    return PartCounts(
        layers=depth,
        attention=parameter_counts.attention(width),
        norm=parameter_counts.norm(width),
        keys_and_values=linear(width, 2 * key_width),
        read=linear(width, own),
        decoder=small.layers * layer + parameter_counts.norm(own) + linear(own, width),
        decoder_norm=parameter_counts.norm(own),
    )


def _source_parameters(settings: ConditioningSettings, width: int) -> int:
    source = settings.source
    if source.kind == "class":
        return len(source.classes) * source.vectors * width
    if source.kind == "features":
        return parameter_counts.linear(source.features, width) + parameter_counts.norm(width)
    if source.kind == "pretrained-text":
        return source.parameters + parameter_counts.linear(source.width, width) + parameter_counts.norm(width)
    if source.kind == "text":
        layers = source.layers * parameter_counts.encoder_layer(width, 4 * width)
        return source.vocabulary * width + layers + parameter_counts.norm(width)
    if source.encoder is not None:
        return source.encoder.layers * parameter_counts.encoder_layer(width, 4 * width) + 2 * parameter_counts.norm(
            width
        )
    return 0
