"""Continuing prompts with a decoder-only model, by greedy or beam search with transformers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from transformers import StoppingCriteriaList

from subgraft.base.progress import ProgressCallback
from subgraft.modeling.inference.prompts import ChatTemplate, Prompts, Turn
from subgraft.modeling.inference.search import DEFAULT_BATCH_SIZE, BatchSearch, LengthLimit, generate_ids
from subgraft.subwords.vocabulary.tokenizer import Tokenizer


class Continuer(BatchSearch):
    """Continues prompts; outputs are in their order, and a prompt with its output is the complete text.

    A prompt that leaves no room for max_tokens, at most half of the model's positions, is truncated at its beginning.

    Args:
        model: The decoder-only model.
        tokenizer: Its tokenizer.
        start: The token before every text.
        beam: The beam size; 1 is greedy search.
        max_length_ratio: The limit of an output in bytes, per byte of its prompt.
        max_positions: The maximum length of prompt and output in tokens.
        max_tokens: The limit of an output in tokens; None for no limit.
        chat: Treats each prompt as a user's turn to be answered; only max_tokens limits the answer.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Tokenizer,
        start: int,
        *,
        beam: int,
        max_length_ratio: float,
        max_positions: int,
        max_tokens: int | None = None,
        chat: ChatTemplate | None = None,
    ) -> None:
        super().__init__(model, tokenizer)
        self._prompts = Prompts(tokenizer, start, max_positions, max_length_ratio, max_tokens, chat)
        self._beam = beam
        self._max_positions = max_positions

    def __call__(
        self, prompts: Sequence[Turn], batch_size: int = DEFAULT_BATCH_SIZE, progress: ProgressCallback | None = None
    ) -> list[str]:
        """The continuation of each prompt. Leaves the model in evaluation mode."""
        prompt_ids, outputs = self._prompts.ids(prompts), [""] * len(prompts)
        texts = [prompt if isinstance(prompt, str) else "" for prompt in prompts]
        for indices, outputs_of_batch in self._written(range(len(prompts)), prompt_ids, texts, batch_size, progress):
            for index, tokens in zip(indices, outputs_of_batch.tolist(), strict=True):
                outputs[index] = self._prompts.output(prompt_ids[index], tokens, self._ends)
        return outputs

    @torch.inference_mode()
    def _generate(self, sequences: Sequence[list[int]], texts: Sequence[str]) -> Tensor:
        """The tokens after each prompt [B, T], padded at the end."""
        device, longest = self._device, max(map(len, sequences))
        self._lengths = self._lengths.to(device)
        input_ids, mask = left_pad(sequences, device)
        # The length of a prompt does not limit an answer.
        limits = [] if self._prompts.chat else [LengthLimit(self._lengths, texts, self._prompts.ratio, longest)]
        written = generate_ids(
            self._model,
            input_ids=input_ids,
            attention_mask=mask,
            num_beams=self._beam,
            do_sample=False,
            early_stopping=self._beam > 1,  # transformers warns about it in greedy search
            eos_token_id=list(self._ends),
            pad_token_id=self._padding,
            forced_bos_token_id=None,
            forced_eos_token_id=None,
            max_length=min(self._max_positions, longest + (self._prompts.max_output_tokens or self._max_positions)),
            stopping_criteria=StoppingCriteriaList(limits),
        )
        return written[:, longest:]


def left_pad(prompts: Sequence[list[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Prompts as one tensor [B, S], padded at the beginning, and its mask.

    The padding is masked. It repeats the first token, so that repetition penalties do not apply to tokens that the
    prompt does not contain.
    """
    longest = max(map(len, prompts))
    padding = [longest - len(ids) for ids in prompts]
    rows = [[ids[0]] * missing + ids for missing, ids in zip(padding, prompts, strict=True)]
    mask = (torch.arange(longest, device=device) >= torch.tensor(padding, device=device)[:, None]).long()
    return torch.tensor(rows, device=device), mask
