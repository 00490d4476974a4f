"""How sure a model was of what it generated: the probability of each token, given the source and the tokens before.

The finished outputs are read once more, all positions at a time. Generation itself stays as fast as ever, where keeping
its scores would hold every beam's logits of every step: 13 GB for a hundred tokens of 32 sentences by 250,002 pieces.
(transformers' compute_transition_scores also takes the encoder's vocabulary for the decoder's.)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

# Logits that are held at a time, in numbers: a quarter of a gigabyte.
_LOGITS = 1 << 26


@torch.inference_mode()
def token_probabilities(model: nn.Module, input_ids: Tensor, attention_mask: Tensor, generated: Tensor) -> Tensor:
    """Probabilities [B, T - 1] of `generated[:, 1:]` under the softmax that beam and greedy search choose by.

    Args:
        input_ids: [B, S], with its attention_mask.
        generated: [B, T] as `generate` returns it: the decoder's start, the output, and padding behind it; what is
            said of padding means nothing.
    """
    vocabulary: int = model.get_output_embeddings().weight.shape[0]  # type: ignore[operator]
    systems = max(1, _LOGITS // (vocabulary * generated.shape[1]))
    found = []
    for start in range(0, len(generated), systems):
        part = slice(start, start + systems)
        logits = model(
            input_ids=input_ids[part],
            attention_mask=attention_mask[part],
            decoder_input_ids=generated[part, :-1],
            use_cache=False,
        ).logits.float()
        chosen = logits.gather(2, generated[part, 1:, None])[..., 0]
        found.append((chosen - logits.logsumexp(2)).exp())
    return torch.cat(found)
