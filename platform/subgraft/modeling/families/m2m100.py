# mypy: allow-untyped-calls
"""M2M-100 (Fan et al., JMLR 2021) and NLLB (NLLB Team, 2022), which share a model type in transformers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from subgraft.base.errors import UserError
from subgraft.config.models import M2M100Settings
from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.bart_like import OneTable
from subgraft.modeling.families.family import require_same_padding
from subgraft.modeling.families.model_parts import Config, Parameters, Tables
from subgraft.modeling.families.sequence_format import SequenceFormat, language_codes, required_token, start_role

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor
    from transformers import PreTrainedModel

    from subgraft.config.corpora import Languages
    from subgraft.config.model_shapes import TwoStackSettings
    from subgraft.config.settings_base import SideName
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer


_ROLES = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "sep_token": "</s>",
    "pad_token": "<pad>",
    "unk_token": "<unk>",
}


class M2M100(OneTable):
    """Encoder, decoder and output projection share one embedding matrix; positions are sinusoids, not parameters."""

    model_type = "m2m_100"
    transformers_class = "M2M100ForConditionalGeneration"
    ctranslate2_loader = "M2M100Loader"
    objectives = M2M100Settings.objectives
    display_name = "an M2M-100"

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
        ends = required_token(source, "eos", "an M2M-100"), required_token(target, "eos", "an M2M-100")
        codes = language_codes(source, target, languages)
        start = required_token(target, start_role(config, "eos"), "an M2M-100")
        if source.config.get("legacy_behaviour"):
            return SequenceFormat((ends[0], codes[0]), (ends[1],), start, (), codes[1])
        return SequenceFormat((ends[0],), (ends[1],), start, (codes[0],), codes[1])

    def new_config(self, settings: TwoStackSettings, encoder: Tokenizer, decoder: Tokenizer) -> dict[str, Any]:
        """New models have no layerdrop, unlike published configurations."""
        layerdrop = {"encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0}
        return {**super().new_config(settings, encoder, decoder), **layerdrop}

    def published_tokenizers(self, directory: Path) -> dict[SideName, Tokenizer] | None:
        """From sentencepiece.bpe.model, vocab.json, and the codes of transformers' tokenizer, which follow the pieces.

        A directory with a tokenizer.json, such as NLLB's, is read like any other.
        """
        model, numbering = directory / "sentencepiece.bpe.model", directory / "vocab.json"
        if not (model.is_file() and numbering.is_file()) or (directory / "tokenizer.json").is_file():
            return None
        from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES

        from subgraft.base.json_io import object_in
        from subgraft.modeling.families.piece_numbering import read_numbering, tokenizer_with_ids

        ids = read_numbering(numbering, _ROLES.values())
        named = object_in(directory / "tokenizer_config.json").get("language_codes", "m2m100")
        known = FAIRSEQ_LANGUAGE_CODES.get(named) if isinstance(named, str) else None
        if known is None:
            raise UserError(f"its language codes ({named}) are not known", where=str(directory))
        codes = {f"__{code}__": len(ids) + place for place, code in enumerate(known)}
        special = [*dict.fromkeys(_ROLES.values()), *codes]
        return dict.fromkeys(self.sides, tokenizer_with_ids(model, {**ids, **codes}, special, _ROLES))

    def output_bias(self, model: PreTrainedModel) -> Tensor | None:
        return None

    def replace_tables(self, model: PreTrainedModel, tables: Mapping[SideName, Tables]) -> PreTrainedModel:
        """Raises UserError for separate embeddings of the two sides, and for another padding id."""
        for table in tables.values():
            require_same_padding(self.model_type, model.config.pad_token_id, table.padding_id)
        return super().replace_tables(model, tables)

    def ctranslate2_specification(self, model: PreTrainedModel) -> Any:
        """Positions are counted from the padding id, which the loader assumes to be 1: they are corrected here."""
        specification = super().ctranslate2_specification(model)
        for side in self.sides:
            positions: Any = model.get_submodule(f"model.{side}.embed_positions")
            getattr(specification, side).position_encodings.encodings = positions.weights[positions.padding_idx + 1 :]
        return specification
