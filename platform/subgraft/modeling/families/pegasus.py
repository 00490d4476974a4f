"""PEGASUS (Zhang et al., ICML 2020): an encoder-decoder pretrained to write the sentences left out of a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.bart_like import OneTable
from subgraft.modeling.families.model_parts import Config, Parameters
from subgraft.modeling.families.sequence_format import SequenceFormat, needed, start_role

if TYPE_CHECKING:
    from subgraft.config.corpora import Languages
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer


class Pegasus(OneTable):
    """Taken from checkpoints only. Encoder, decoder and output projection share one embedding matrix."""

    model_type = "pegasus"
    transformers_class = "PegasusForConditionalGeneration"
    ctranslate2_loader = "PegasusLoader"
    objectives = frozenset({"translation"})
    called = "a PEGASUS"
    sinusoids = "PegasusSinusoidalPositionalEmbedding"

    def body_parameters(self, config: Config) -> Parameters:
        """Pre-norm layers, one more norm at the top of each stack, and sinusoids that are stored but not trained."""
        width = self.width(config)
        trained = self.layer_parameters(config) + 2 * parameter_counts.norm(width)
        return Parameters(trained + 2 * config["max_position_embeddings"] * width, trained)

    def sequence_format(
        self, config: Config, source: Tokenizer, target: Tokenizer, languages: Languages | None
    ) -> SequenceFormat:
        """text </s>; decoding starts with padding."""
        ends = (needed(source, "eos", "a PEGASUS"),), (needed(target, "eos", "a PEGASUS"),)
        return SequenceFormat(*ends, needed(target, start_role(config, "pad"), "a PEGASUS"))

    def ctranslate2_settings(self, config: Config) -> Mapping[str, Any]:
        """Layers are normalised before each part, embeddings are not, which configurations do not always say."""
        return {"normalize_before": True, "normalize_embedding": False}
