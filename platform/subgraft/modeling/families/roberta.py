"""RoBERTa (Liu et al., 2019) and XLM-RoBERTa (Conneau et al., ACL 2020) with their masked language modelling head.

RoBERTa has GPT-2's kind of vocabulary, XLM-RoBERTa a SentencePiece one; otherwise both are BERTs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from subgraft.modeling.families.encoder_only import EncoderOnly

if TYPE_CHECKING:
    from torch import Tensor


class Roberta(EncoderOnly):
    """Taken from checkpoints only."""

    model_type = "roberta"
    transformers_class = "RobertaForMaskedLM"
    stack_class, decoder_class = "RobertaModel", "RobertaForCausalLM"
    head = "lm_head"
    positions_after_padding = True

    def head_transform(self, head: Any) -> Callable[[Tensor], Tensor]:
        from torch.nn.functional import gelu

        return lambda states: head.layer_norm(gelu(head.dense(states)))


class XLMRoberta(Roberta):
    """transformers has classes of its own for it."""

    model_type = "xlm-roberta"
    transformers_class = "XLMRobertaForMaskedLM"
    stack_class, decoder_class = "XLMRobertaModel", "XLMRobertaForCausalLM"
