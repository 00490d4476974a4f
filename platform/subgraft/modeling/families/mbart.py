# mypy: allow-untyped-calls
"""mBART (Liu et al., 2020), the split mBART with separate vocabularies that a transfer makes of it, and the factorised
mBART, whose embeddings are narrower than its hidden states.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from subgraft.base.errors import UserError
from subgraft.config.models import MBartSettings
from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.bart_like import BartLike
from subgraft.modeling.families.model_parts import Config, Parameters
from subgraft.modeling.families.sequence_format import SequenceFormat, language_codes, required_token, start_role

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedModel

    from subgraft.config.corpora import Languages
    from subgraft.config.model_shapes import TwoStackSettings
    from subgraft.modeling.families.bart_like import ClassAndConfig
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer
# The model type of an mBART that reads preceding sentences: see contrib.
_IN_CONTEXT = "context_mbart"


class MBart(BartLike):
    """Encoder, decoder and output projection share one vocabulary and one embedding matrix."""

    model_type = "mbart"
    transformers_class = "MBartForConditionalGeneration"
    ctranslate2_loader: ClassVar[str | None] = "BartLoader"
    objectives = MBartSettings.objectives
    separate_config: ClassVar[Mapping[str, Any]] = {"model_type": "split_mbart"}
    takes_context: ClassVar[bool] = True

    def has_shared_table(self, config: Config) -> bool:
        return True

    def body_parameters(self, config: Config) -> Parameters:
        """Each stack has learned positions, and layer norms after its embeddings and at its top."""
        width = self.width(config)
        positions = parameter_counts.padded_positions(config["max_position_embeddings"], width)
        total = self.layer_parameters(config) + 2 * (positions + 2 * parameter_counts.norm(width))
        return Parameters(total, total)

    def sequence_format(
        self, config: Config, source: Tokenizer, target: Tokenizer, languages: Languages | None
    ) -> SequenceFormat:
        """text </s> CODE; the decoder starts with the target's language code.

        An mBART-50 (Tang et al., 2020), recognised by a configuration that starts decoding with </s>, has the code
        before the text instead, and predicts the target's code.
        """
        ends = required_token(source, "eos", "an mBART"), required_token(target, "eos", "an mBART")
        codes = language_codes(source, target, languages)
        if start_role(config, "language") == "eos":
            return SequenceFormat((ends[0],), (ends[1],), ends[1], (codes[0],), codes[1])
        return SequenceFormat((ends[0], codes[0]), (ends[1], codes[1]), codes[1])

    def separator(self, ending: tuple[int, ...]) -> tuple[int, ...]:
        """None: published tokenizers put two texts next to each other."""
        return ()

    def ends_blocks(self, config: Config) -> bool:
        """Whether a language code follows the last sentence. In an mBART-50 a text ends as a sentence does."""
        return start_role(config, "language") != "eos"

    def sentence_separator(self, tokenizer: Tokenizer) -> tuple[int, ...]:
        """</s> (Liu et al., 2020, section 2.2)."""
        return (required_token(tokenizer, "eos", "an mBART"),)

    def with_context(self, config: Config, sentences: int, end_id: int) -> dict[str, Any]:
        if not self.takes_context:
            return super().with_context(config, sentences, end_id)
        entries = {name: value for name, value in config.items() if name not in ("architectures", "auto_map")}
        own = {"context_sentences": sentences, "context_end_id": end_id}
        return {**entries, "model_type": _IN_CONTEXT, **own}

    def new_config(self, settings: TwoStackSettings, encoder: Tokenizer, decoder: Tokenizer) -> dict[str, Any]:
        """Targets start with their language's code, so callers of `generate` set `decoder_start_token_id`."""
        return {**super().new_config(settings, encoder, decoder), "decoder_start_token_id": None}

    def ctranslate2_settings(self, config: Config) -> Mapping[str, Any]:
        return {"normalize_before": True, "normalize_embedding": True}

    def _rebuild_config(self, config: PreTrainedConfig, settings: dict[str, Any], shared: bool) -> ClassAndConfig:
        """An mBART whose sides get separate vocabularies becomes a split mBART, which remains one."""
        from subgraft.modeling.families.split_mbart import SplitMBartConfig, SplitMBartForConditionalGeneration

        if not shared:
            return SplitMBartForConditionalGeneration, SplitMBartConfig(**settings)
        del settings["decoder_vocab_size"], settings["encoder_pad_token_id"]
        return self.model_class(), type(config)(**settings)


class SplitMBart(MBart):
    """An mBART with two vocabularies. Its class in `split_mbart.py` is saved next to the weights."""

    model_type = "split_mbart"
    lends_encoder = False
    takes_context = False

    def has_shared_table(self, config: Config) -> bool:
        return False

    def model_class(self) -> type[PreTrainedModel]:
        from subgraft.modeling.families.split_mbart import SplitMBartForConditionalGeneration

        return SplitMBartForConditionalGeneration


class FactorisedMBart(MBart):
    """An mBART with narrower embeddings. Its class in `factorised_mbart.py` is saved next to the weights."""

    model_type = "factorised_mbart"
    ctranslate2_loader = None
    lends_encoder = False
    takes_context = False
    separate_config: ClassVar[Mapping[str, Any]] = {"model_type": "factorised_mbart", "shared_table": False}
    shared_module = False

    def check(self, config: Config) -> None:
        if not config.get("tie_word_embeddings", True):
            raise UserError(
                "the output projection of a factorised mBART is its embeddings: tie_word_embeddings must be true"
            )

    def has_shared_table(self, config: Config) -> bool:
        return bool(config["shared_table"])

    def embedding_width(self, config: Config) -> int:
        return int(config["embedding_size"])

    def body_parameters(self, config: Config) -> Parameters:
        """Both sides and the output share one projection between embeddings and hidden states."""
        body, projection = super().body_parameters(config).total, self.embedding_width(config) * self.width(config)
        return Parameters(body + projection, body + projection)

    def config_dict(self, settings: TwoStackSettings, encoder_size: int, decoder_size: int) -> dict[str, Any]:
        return {
            **super().config_dict(settings, encoder_size, decoder_size),
            "decoder_vocab_size": decoder_size,
            "encoder_pad_token_id": 0,
            "embedding_size": settings.width_of_rows,
            "shared_table": True,
        }

    def new_config(self, settings: TwoStackSettings, encoder: Tokenizer, decoder: Tokenizer) -> dict[str, Any]:
        padding = {"encoder_pad_token_id": decoder.special["pad"]}
        return {**super().new_config(settings, encoder, decoder), **padding}

    def model_class(self) -> type[PreTrainedModel]:
        from subgraft.modeling.families.factorised_mbart import FactorisedMBartForConditionalGeneration

        return FactorisedMBartForConditionalGeneration

    def transform(self, model: PreTrainedModel) -> Callable[[Tensor], Tensor] | None:
        head: Any = model.get_output_embeddings()
        narrowed: Callable[[Tensor], Tensor] = head.narrowed
        return narrowed

    def _rebuild_config(self, config: PreTrainedConfig, settings: dict[str, Any], shared: bool) -> ClassAndConfig:
        return self.model_class(), type(config)(**{**settings, "shared_table": shared})
