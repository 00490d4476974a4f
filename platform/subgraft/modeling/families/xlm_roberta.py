# mypy: allow-untyped-calls
"""XLM-RoBERTa (Conneau et al., ACL 2020) with its masked language modelling head: a BERT with SentencePiece tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from subgraft.base.errors import UserError
from subgraft.modeling.families.assembly import Stacks
from subgraft.modeling.families.bert import Bert
from subgraft.modeling.families.family import same_padding_only

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from subgraft.config.models import BertSettings
    from subgraft.modeling.families.model_parts import Config
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer


class XLMRoberta(Bert):
    """Positions are counted from after the padding id, so the first rows of the position embeddings are unused."""

    model_type = "xlm-roberta"

    def position_limit(self, config: Config) -> int | None:
        return int(config["max_position_embeddings"]) - int(config.get("pad_token_id", 1)) - 1

    def described(self, settings: BertSettings, encoder_size: int, decoder_size: int) -> dict[str, Any]:
        raise UserError("an xlm-roberta model cannot be built", hint="Build a bert, or take a checkpoint.")

    def build(self, settings: BertSettings, encoder: Tokenizer, decoder: Tokenizer, seed: int) -> PreTrainedModel:
        raise UserError("an xlm-roberta model cannot be built", hint="Build a bert, or take a checkpoint.")

    def stacks(self) -> Stacks:
        from transformers import XLMRobertaConfig, XLMRobertaForCausalLM, XLMRobertaModel

        return Stacks(XLMRobertaConfig, XLMRobertaModel, XLMRobertaForCausalLM)

    def model_class(self) -> type[PreTrainedModel]:
        from transformers import XLMRobertaForMaskedLM

        return XLMRobertaForMaskedLM

    def head(self, model: PreTrainedModel) -> Any:
        return model.lm_head

    def head_transform(self, head: Any) -> Callable[[Tensor], Tensor]:
        from torch.nn.functional import gelu

        return lambda states: head.layer_norm(gelu(head.dense(states)))

    def check_padding(self, padding_id: int | None, new: int | None) -> None:
        same_padding_only(self.model_type, padding_id, new)
