"""XLM-RoBERTa (Conneau et al., ACL 2020) with its masked language modelling head: BERT with SentencePiece tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from subgraft.modeling.families.encoder_only import EncoderOnly

if TYPE_CHECKING:
    from torch import Tensor


class XLMRoberta(EncoderOnly):
    """Taken from checkpoints only."""

    model_type = "xlm-roberta"
    transformers_class = "XLMRobertaForMaskedLM"
    stack_class, decoder_class = "XLMRobertaModel", "XLMRobertaForCausalLM"
    head = "lm_head"
    positions_after_padding = True

    def head_transform(self, head: Any) -> Callable[[Tensor], Tensor]:
        from torch.nn.functional import gelu

        return lambda states: head.layer_norm(gelu(head.dense(states)))
