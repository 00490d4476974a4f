# mypy: allow-untyped-calls
"""BART (Lewis et al., ACL 2020): one vocabulary of one language, cut into bytes as GPT-2's is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from subgraft.errors import UserError
from subgraft.models.families import counting
from subgraft.models.families.bart_like import BartLike
from subgraft.models.families.family import one_table_only
from subgraft.models.families.mbart import POSITION_OFFSET
from subgraft.models.families.parts import Config, Parameters, SequenceFormat, needed, start_role

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

    from subgraft.config.base import SideName
    from subgraft.config.corpora import Languages
    from subgraft.models.families.bart_like import Rebuilt
    from subgraft.vocabulary.tokenizer import Tokenizer


class Bart(BartLike):
    """One table for encoder, decoder and output projection."""

    model_type = "bart"
    objectives = frozenset({"translation"})
    apart: ClassVar[Mapping[str, Any]] = {}
    one_table = True

    def check(self, config: Config) -> None:
        if not config.get("tie_word_embeddings", True):
            raise UserError("a BART whose tables are not tied is not known")

    def has_shared_table(self, config: Config) -> bool:
        return True

    def with_vocabularies(self, config: Config, sizes: Mapping[SideName, int]) -> dict[str, Any]:
        """Raises UserError where the sides would have vocabularies of their own."""
        if len(sizes) == 1 or len(set(sizes.values())) > 1:
            raise one_table_only(self.model_type)
        return self.without_second_side(super().with_vocabularies(config, sizes))

    def body_parameters(self, config: Config) -> Parameters:
        """Each stack has learned positions, and layer normalisation after its embeddings."""
        width = self.width(config)
        layers = config["encoder_layers"] * counting.encoder_layer(width, config["encoder_ffn_dim"])
        layers += config["decoder_layers"] * counting.decoder_layer(width, config["decoder_ffn_dim"])
        positions = (config["max_position_embeddings"] + POSITION_OFFSET) * width
        total = layers + 2 * (positions + counting.norm(width))
        return Parameters(total, total)

    def sequence_format(
        self, config: Config, source: Tokenizer, target: Tokenizer, languages: Languages | None
    ) -> SequenceFormat:
        """A beginning, a sentence and its end; the decoder starts with an end, and predicts the beginning."""
        begins = needed(source, "bos", "a BART"), needed(target, "bos", "a BART")
        ends = needed(source, "eos", "a BART"), needed(target, "eos", "a BART")
        start = needed(target, start_role(config, "eos"), "a BART")
        return SequenceFormat((ends[0],), (ends[1],), start, (begins[0],), begins[1])

    def model_class(self) -> type[PreTrainedModel]:
        from transformers import BartForConditionalGeneration

        return BartForConditionalGeneration

    def _around(self, config: PreTrainedConfig, settings: dict[str, Any], shared: bool) -> Rebuilt:
        if not shared:
            raise one_table_only(self.model_type)
        return self.model_class(), type(config)(**self.without_second_side(settings))
