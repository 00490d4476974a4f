# mypy: allow-untyped-calls
"""The common base of decoder-only language models (GPT-2, Llama), which continue a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.family import Family
from subgraft.modeling.families.heads import Head
from subgraft.modeling.families.input_layout import DEFAULT_MAX_LENGTH, InputLayout
from subgraft.modeling.families.model_parts import Config, Tables, TableSize
from subgraft.modeling.families.sequence_format import SequenceFormat, required_token

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel

    from subgraft.config.corpora import Languages
    from subgraft.config.settings_base import SideName
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer


class DecoderOnly(Family):
    """Models with one side. tied: whether the projection is tied if config.json has no `tie_word_embeddings`."""

    sides = ("decoder",)
    objectives = frozenset({"causal"})
    tied: ClassVar[bool]

    def depth(self, config: Config) -> int:
        """The number of layers."""
        return int(config[self.layers_key])

    def key_width(self, config: Config) -> int:
        """The total width of a layer's keys, which is also that of its values."""
        return self.width(config)

    def layers(self, config: Config, side: SideName) -> int:
        return self.depth(config) if side == "decoder" else 0

    def encoder_states(self, model: nn.Module, *, layer: int | None = None, **inputs: Any) -> Tensor:
        """No states [B, 0, 0]: there is no source."""
        import torch

        del model, layer
        return torch.empty(len(inputs["attention_mask"]), 0, 0)

    def decoder_states(
        self, model: nn.Module, memory: Tensor, mask: Tensor, *, layer: int | None = None, **inputs: Any
    ) -> Tensor:
        """States [B, T, d] of texts that are padded on the right; the source is ignored."""
        import torch

        del memory, mask
        (read,) = (value for name, value in inputs.items() if name in ("input_ids", "inputs_embeds"))
        everything = torch.ones(read.shape[:2], dtype=torch.long, device=read.device)  # else transformers warns
        return self.stack_states(model, layer=layer, attention_mask=everything, use_cache=False, **inputs)

    def with_vocabularies(self, config: Config, sizes: Mapping[SideName, int]) -> dict[str, Any]:
        # Any valid id will do: transformers cannot construct a model whose padding id exceeds a smaller vocabulary.
        padding = {"pad_token_id": 0} if config.get("pad_token_id") is not None else {}
        return {**config, "vocab_size": sizes.get("decoder", config["vocab_size"]), **padding}

    def table_sizes(self, config: Config) -> list[TableSize]:
        numbers = config["vocab_size"] * self.embedding_width(config)
        return [TableSize(frozenset(self.sides), numbers)] * (1 if self.is_tied(config) else 2)

    def is_tied(self, config: Config) -> bool:
        """Whether the output projection is the input embedding matrix."""
        return bool(config.get("tie_word_embeddings", self.tied))

    def untied(self, config: Config) -> dict[str, Any]:
        return {**config, "tie_word_embeddings": False} if self.is_tied(config) else dict(config)

    def untie(self, model: PreTrainedModel) -> None:
        from torch import nn

        output: Any = model.get_output_embeddings()
        if output.weight is self.input_table(model, "decoder").weight:
            output.weight = nn.Parameter(output.weight.detach().clone())
        model.config.tie_word_embeddings = False
        # transformers does not save weights of these names.
        model.all_tied_weights_keys = {}

    def sequence_format(
        self, config: Config, source: Tokenizer, target: Tokenizer, languages: Languages | None
    ) -> SequenceFormat:
        """A text starts with its beginning token and ends with its end token. There is no source.

        The beginning token is the tokenizer's. config.json's is used if the tokenizer has none (Qwen), or if it is
        also an end token (GPT-2, and models trained on lines separated by ends). An id that is not a special token of
        this vocabulary is ignored. Without a beginning token, the end token is used.
        """
        end = required_token(target, "eos", f"a {self.model_type} model")
        begin, ends = config.get("bos_token_id"), config.get("eos_token_id")
        is_end = begin is not None and begin in (ends if isinstance(ends, list) else [ends])
        known = begin if begin in target.special_ids else end
        return SequenceFormat((), (end,), known if is_end else target.special.get("bos", known))

    def input_layout(self, config: Config, tokenizer: Tokenizer, languages: Languages | None) -> InputLayout:
        """A text after its beginning token, if it has one; two texts with the end token between them.

        No token follows a text, because a head reads the last token. `add_bos_token` in tokenizer_config.json defines
        whether there is a beginning token; by default there is one if it differs from the end token.
        """
        end, begin = required_token(tokenizer, "eos", f"a {self.model_type} model"), tokenizer.special.get("bos")
        added = tokenizer.config.get("add_bos_token")
        begins = begin is not None and (added if isinstance(added, bool) else begin != end)
        limit = self.position_limit(config)
        return InputLayout(
            (begin,) if begins and begin is not None else (), (end,), (), False, limit or DEFAULT_MAX_LENGTH
        )

    def classifier_parameters(self, config: Config, head: Head) -> int:
        """One linear map of states; it has no bias in a head that classifies texts."""
        return parameter_counts.linear(self.embedding_width(config), len(head.labels), head.kind in ("tokens", "span"))

    def input_table(self, model: PreTrainedModel, name: SideName) -> nn.Embedding:
        table: nn.Embedding = model.get_input_embeddings()  # type: ignore[assignment]
        return table

    def replace_tables(self, model: PreTrainedModel, tables: Mapping[SideName, Tables]) -> PreTrainedModel:
        from subgraft.modeling.families.table_replacement import replace_tensors

        replace_tensors(self, model, "decoder", tables["decoder"])
        self.post_init(model)
        return model


def token_ids(tokenizer: Tokenizer) -> dict[str, Any]:
    """The token ids of a new model's generation settings."""
    end = tokenizer.special["eos"]
    begin, padding = tokenizer.special.get("bos", end), tokenizer.special.get("pad")
    return {"bos_token_id": begin, "eos_token_id": end, "pad_token_id": padding}
