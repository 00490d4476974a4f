# mypy: allow-untyped-calls
"""M2M-100 (Fan et al., JMLR 2021) and NLLB (NLLB Team, 2022), which share a model type in transformers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.bart_like import OneTable, new_config, shape
from subgraft.modeling.families.family import same_padding_only
from subgraft.modeling.families.model_parts import Config, Parameters, Tables
from subgraft.modeling.families.sequence_format import SequenceFormat, language_codes, needed, start_role

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor
    from transformers import PreTrainedModel

    from subgraft.config.corpora import Languages
    from subgraft.config.models import M2M100Settings
    from subgraft.config.settings_base import SideName
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer


class M2M100(OneTable):
    """Encoder, decoder and output projection share one embedding matrix; positions are sinusoids, not parameters."""

    model_type = "m2m_100"
    objectives = frozenset({"translation"})
    called = "an M2M-100"

    def body_parameters(self, config: Config) -> Parameters:
        """Layers are pre-norm, with one more norm at the top of each stack."""
        width = self.width(config)
        total = self.layer_parameters(config) + 2 * parameter_counts.norm(width)
        return Parameters(total, total)

    def computed_numbers(self, config: Config) -> int:
        """The sinusoids of both stacks."""
        return 2 * int(config["max_position_embeddings"]) * self.width(config)

    def sequence_format(
        self, config: Config, source: Tokenizer, target: Tokenizer, languages: Languages | None
    ) -> SequenceFormat:
        """CODE text </s>; the decoder starts with </s> and predicts the target's language code.

        The first NLLB tokenizers put the source's code after </s>: `legacy_behaviour` in tokenizer_config.json.
        """
        ends = needed(source, "eos", "an M2M-100"), needed(target, "eos", "an M2M-100")
        codes = language_codes(source, target, languages)
        start = needed(target, start_role(config, "eos"), "an M2M-100")
        if source.config.get("legacy_behaviour"):
            return SequenceFormat((ends[0], codes[0]), (ends[1],), start, (), codes[1])
        return SequenceFormat((ends[0],), (ends[1],), start, (codes[0],), codes[1])

    def described(self, settings: M2M100Settings, encoder_size: int, decoder_size: int) -> dict[str, Any]:
        # Within the smallest vocabulary there is: a padding row must exist.
        ids = {"pad_token_id": 0, "decoder_start_token_id": 0}
        return {"model_type": self.model_type, **shape(settings), "vocab_size": decoder_size, **ids}

    def build(self, settings: M2M100Settings, encoder: Tokenizer, decoder: Tokenizer, seed: int) -> PreTrainedModel:
        """New models have no layerdrop, unlike published configurations."""
        from transformers import M2M100Config

        from subgraft.modeling.families.initialization import initialised

        config = M2M100Config(
            vocab_size=len(decoder),
            decoder_start_token_id=decoder.special["eos"],
            encoder_layerdrop=0.0,
            decoder_layerdrop=0.0,
            **new_config(settings, decoder),
        )
        return initialised(self.model_class(), config, seed)

    def model_class(self) -> type[PreTrainedModel]:
        from transformers import M2M100ForConditionalGeneration

        return M2M100ForConditionalGeneration

    def published_tokenizers(self, directory: Path) -> dict[SideName, Tokenizer] | None:
        from subgraft.modeling.families import m2m100_layout

        return (
            dict.fromkeys(self.sides, m2m100_layout.load(directory)) if m2m100_layout.is_published(directory) else None
        )

    def output_bias(self, model: PreTrainedModel) -> Tensor | None:
        return None

    def replace_tables(self, model: PreTrainedModel, tables: Mapping[SideName, Tables]) -> PreTrainedModel:
        """Raises UserError for separate embeddings of the two sides, and for another padding id."""
        for table in tables.values():
            same_padding_only(self.model_type, model.config.pad_token_id, table.padding_id)
        return super().replace_tables(model, tables)

    def runs_in_ctranslate2(self, config: Config) -> bool:
        return True

    def ctranslate2_specification(self, model: PreTrainedModel) -> Any:
        """Positions are counted from the padding id, which the loader assumes to be 1: they are corrected here."""
        from subgraft.modeling.families.ctranslate2_loading import specification

        specified = specification("M2M100Loader", model)
        for side in self.sides:
            positions: Any = model.get_submodule(f"model.{side}.embed_positions")
            getattr(specified, side).position_encodings.encodings = positions.weights[positions.padding_idx + 1 :]
        return specified
