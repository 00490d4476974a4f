# mypy: allow-untyped-calls
"""A language model with a source, which transformers treats as an encoder-decoder."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    EncoderDecoderCache,
    GenerationMixin,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from subgraft.base.errors import UserError
from subgraft.contrib.conditioning import source_encoders
from subgraft.modeling.conditioning import settings as conditioning
from subgraft.modeling.conditioning.copying import CopyHead, TargetStates
from subgraft.modeling.conditioning.settings import ConditioningSettings
from subgraft.modeling.conditioning.variants.registry import VARIANTS
from subgraft.modeling.conditioning.variants.variant import Memory
from subgraft.modeling.families.family import logit_cap, softcap


class ConditionalConfig(PreTrainedConfig):
    """The configuration of a conditioned model; token ids are the language model's.

    Attributes:
        language_model: The language model's configuration.
        conditioning: `ConditioningSettings` as plain data.
    """

    model_type = "conditional"
    sub_configs = {"language_model": AutoConfig}  # noqa: RUF012
    has_no_defaults_at_init = True

    language_model: Any = None
    conditioning: Any = None
    is_encoder_decoder: bool = True

    def __post_init__(self, **kwargs: Any) -> None:
        if isinstance(self.language_model, dict):
            entries = dict(self.language_model)
            self.language_model = AutoConfig.for_model(entries.pop("model_type"), **entries)
        super().__post_init__(**kwargs)

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> PreTrainedConfig:
        """The configuration of the part that generates: the language model's."""
        del decoder, encoder
        text: PreTrainedConfig = self.language_model
        return text

    @property
    def settings(self) -> ConditioningSettings:
        return ConditioningSettings.model_validate(self.conditioning)


class ConditionalModel(PreTrainedModel, GenerationMixin):
    """A source encoder, a variant with the new parameters of the decoder, and the language model.

    Attributes:
        source: Encodes the source.
        variant: The variant's new parameters.
        language_model: Reads and predicts the target.
        copying: The head that copies source tokens, if any.
    """

    config_class = ConditionalConfig
    base_model_prefix = ""
    main_input_name = "input_ids"
    _supports_sdpa = True
    # Recomputed layers get no cache, and pseudo-self stores its source there.
    supports_gradient_checkpointing = False

    def __init__(self, config: ConditionalConfig) -> None:
        super().__init__(config)
        settings = config.settings
        self.language_model: PreTrainedModel = AutoModelForCausalLM.from_config(config.language_model)
        self._variant = VARIANTS[settings.variant]
        self.variant = nn.Module()
        self._variant.add_modules(self.variant, config.language_model, settings.decoder)
        self._variant.prepare_modules(self.language_model)
        self.source = _make_source_encoder(settings, config.language_model, self.language_model)
        copying, width = settings.copying, int(config.language_model.hidden_size)
        self.copying = None if copying is None else CopyHead(width, copying.threshold)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Nothing to do: modules of this package and the language model initialise their own weights."""

    def train(self, mode: bool = True) -> ConditionalModel:
        """Set the mode; a frozen language model stays in evaluation mode without gradients."""
        super().train(mode)
        if self._variant.frozen:
            self.language_model.eval().requires_grad_(False)
        return self

    def gradient_checkpointing_enable(self, *args: Any, **kwargs: Any) -> None:
        """Raises UserError: a recomputed layer would get no cache, and so no source."""
        raise UserError(
            "a language model with a source cannot recompute its activations: its layers would lose the source",
            where="runtime.activation_checkpointing",
            hint="Leave it out, or train with smaller micro-batches.",
        )

    def get_input_embeddings(self) -> nn.Module:
        return self.language_model.get_input_embeddings()

    def get_output_embeddings(self) -> nn.Module:
        projection: nn.Module = self.language_model.get_output_embeddings()
        return projection

    def get_encoder(self, modality: str | None = None) -> source_encoders.SourceEncoder:
        del modality
        return self.source

    def read(self, source: Tensor, mask: Tensor) -> Memory:
        """Encode a source. source: its tensor [B, S] or [B, S, k].  mask: [B, S]."""
        return _memory(self.source(source, mask), mask)

    def target_states(
        self, memory: Memory, cache: EncoderDecoderCache | None = None, selected: bool = False, **inputs: Tensor
    ) -> TargetStates:
        """The states of target tokens given an encoded source. selected: see `CopyHead.forward`."""
        top = self.states(memory, cache, **inputs)
        return TargetStates(top, None if self.copying is None else self.copying(top, memory, selected))

    def states(self, memory: Memory, cache: EncoderDecoderCache | None = None, **inputs: Tensor) -> Tensor:
        """Top states [B, T, d] of target tokens given an encoded source; the language model's projection reads them."""
        rows = source_encoders.memory_mask(memory.mask, memory.states)
        return self._variant.states(self.variant, self.language_model, Memory(memory.states, rows), cache, **inputs)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        *,
        decoder_input_ids: Tensor,
        encoder_outputs: BaseModelOutput | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        use_cache: bool | None = None,
        return_dict: bool | None = None,
        **others: Any,
    ) -> Seq2SeqLMOutput:
        """Logits [B, T, V] for generation; for a model that copies, log-probabilities, which a softmax does not change.

        With a content selector, only the tokens that it selects are copied.

        Args:
            input_ids: The source's tensor [B, S] or [B, S, k].
            attention_mask: The source's mask [B, S]; None if nothing is masked.
            decoder_input_ids: Target tokens [B, T].
            encoder_outputs: The encoded source, instead of `input_ids`.
            past_key_values: The cache of a generation.
            use_cache: Whether to return a cache.
            return_dict: Ignored.
            others: Ignored.
        """
        del return_dict, others
        inputs: Any = input_ids if encoder_outputs is None else encoder_outputs[0]
        if attention_mask is None:
            attention_mask = torch.ones(inputs.shape[:2], dtype=torch.long, device=inputs.device)
        encoded: Any = encoder_outputs if encoder_outputs is not None else self.source(inputs, attention_mask)
        cache = past_key_values if use_cache or past_key_values is not None else None
        memory = _memory(encoded, attention_mask)
        target = self.target_states(memory, cache, selected=True, input_ids=decoder_input_ids)
        logits = self.language_model.get_output_embeddings()(target.top)
        logits = softcap(logits, logit_cap(self.config.language_model))
        if target.copied is not None:
            logits = target.copied.mixture_log_probabilities(logits.to(target.copied.attention.dtype).log_softmax(-1))
        return Seq2SeqLMOutput(logits=logits, past_key_values=cache, encoder_last_hidden_state=encoded[0])


def _memory(encoded: source_encoders.EncodedSource, mask: Tensor) -> Memory:
    states: Any = encoded[0]
    return Memory(states, mask, getattr(encoded, "tokens", None))


def _make_source_encoder(
    settings: ConditioningSettings, config: PreTrainedConfig, language_model: PreTrainedModel
) -> source_encoders.SourceEncoder:
    source, width = settings.source, int(config.hidden_size)
    if isinstance(source, conditioning.ClassSourceSettings):
        return source_encoders.ClassEncoder(len(source.classes), width, source.vectors)
    if isinstance(source, conditioning.FeatureSourceSettings):
        return source_encoders.FeatureEncoder(source.features, width)
    if isinstance(source, conditioning.TextSourceSettings):
        return source_encoders.TextEncoder(
            source.vocabulary, width, source.layers, source.attention_heads, source.dropout
        )
    if isinstance(source, conditioning.PretrainedTextSourceSettings):
        return source_encoders.PretrainedTextEncoder(source.model, source.width, width)
    if isinstance(source, conditioning.TrainedTextSourceSettings) and source.encoder is not None:
        sizes = source.encoder
        return source_encoders.TrainedTextEncoder(
            language_model, width, sizes.layers, sizes.attention_heads, sizes.dropout
        )
    return source_encoders.SourceTable(language_model)


def conditional_config(language_model: PreTrainedConfig, settings: ConditioningSettings) -> ConditionalConfig:
    """The configuration of a language model with a source. Raises UserError if it does not support the variant."""
    language_model_config = deepcopy(language_model)
    VARIANTS[settings.variant].prepare(language_model_config)
    ids: dict[str, Any] = {
        f"{role}_token_id": getattr(language_model_config, f"{role}_token_id", None) for role in ("bos", "eos", "pad")
    }
    ids["decoder_start_token_id"] = ids["bos_token_id"]
    return ConditionalConfig(
        language_model=language_model_config.to_dict(), conditioning=settings.model_dump(mode="json"), **ids
    )


def conditioned(
    language_model: PreTrainedModel, settings: ConditioningSettings, seed: int, reader: PreTrainedModel | None = None
) -> ConditionalModel:
    """The language model with a source, in evaluation mode; new weights depend on the seed only.

    Args:
        language_model: The pretrained language model; it is not changed.
        settings: The variant and the source.
        seed: Determines the new weights.
        reader: The model whose pretrained encoder reads the source, if any; it is not changed.

    Raises:
        UserError: The language model does not support the variant.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ConditionalModel(conditional_config(language_model.config, settings))
    if VARIANTS[settings.variant].pretrained:
        loaded = model.language_model.load_state_dict(language_model.state_dict(), strict=False)
        assert not loaded.unexpected_keys
        assert all("cross" in name for name in loaded.missing_keys)
    if isinstance(model.source, source_encoders.PretrainedTextEncoder) and reader is not None:
        model.source.encoder.load_state_dict(source_encoders.encoder_of(reader).state_dict())
    model.eval()
    return model
