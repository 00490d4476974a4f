"""Text that goes on: what a decoder alone writes after a prompt, by greedy or beam search through transformers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from transformers import StoppingCriteriaList

from subgraft.modeling.ends import end_tokens
from subgraft.modeling.inference.length_limit import LengthLimit, piece_bytes
from subgraft.modeling.inference.prompts import ChatTemplate, Prompts
from subgraft.modeling.inference.search import searched, unended
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

Progress = Callable[[int, int, str], None]


class Continuer:
    """Continues prompts; the output is in their order, and prompt and output are the whole text together.

    start: the token that stands before every text.  max_length_ratio: bytes of output for each byte of its prompt at
    which it is ended.  max_tokens: likewise, in tokens; None for no such limit.  A prompt that leaves no room for so
    many, or for as many as half of what the model takes, is cut at its beginning.
    chat: each prompt is a user's turn, to which an answer is written; its length is limited by max_tokens alone.
    cut: how many outputs of the last call did not end of themselves.  seconds: that its search took.
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
        self._model = model
        self._prompts = Prompts(tokenizer, start, max_positions, max_length_ratio, max_tokens, chat)
        self._beam = beam
        self._max_positions = max_positions
        self._ends = end_tokens(model, tokenizer)
        self._padding = tokenizer.special.get("pad", self._ends[0])
        self._lengths = piece_bytes(tokenizer)
        self._begin()

    def __call__(self, prompts: Sequence[str], batch_size: int = 32, progress: Progress | None = None) -> list[str]:
        """What follows each prompt. The model is left in evaluation mode."""
        self._model.eval()
        given = self._prompts.ids(prompts)
        order = sorted(range(len(prompts)), key=lambda place: -len(given[place]))
        outputs = [""] * len(prompts)
        self._begin()
        for begin in range(0, len(order), batch_size):
            chosen = order[begin : begin + batch_size]
            started = time.perf_counter()
            written = self._generate([given[place] for place in chosen], [prompts[place] for place in chosen])
            self.seconds += time.perf_counter() - started
            self.cut += unended(written, self._ends)
            for place, tokens in zip(chosen, written.tolist(), strict=True):
                outputs[place] = self._prompts.output(given[place], tokens, self._ends)
            if progress is not None:
                progress(min(begin + batch_size, len(order)), len(order), "sentences")
        return outputs

    def _begin(self) -> None:
        """What a call counts, before it counts anything."""
        self.cut = 0
        self.seconds = 0.0

    @torch.inference_mode()
    def _generate(self, given: Sequence[list[int]], prompts: Sequence[str]) -> Tensor:
        """The tokens behind each prompt [B, T], padded at their end; prompts are padded at their beginning.

        The padding in front, which is masked, repeats a prompt's first token: penalties for what was written before
        then count no token that the prompt does not have.
        """
        device = next(self._model.parameters()).device
        self._lengths = self._lengths.to(device)
        longest = max(map(len, given))
        padding = [longest - len(ids) for ids in given]
        rows = [[ids[0]] * missing + ids for missing, ids in zip(padding, given, strict=True)]
        input_ids = torch.tensor(rows, device=device)
        mask = (torch.arange(longest, device=device) >= torch.tensor(padding, device=device)[:, None]).long()
        limit = LengthLimit(self._lengths, prompts, self._prompts.ratio, given=longest)
        written = searched(
            self._model,
            input_ids=input_ids,
            attention_mask=mask,
            num_beams=self._beam,
            do_sample=False,
            early_stopping=self._beam > 1,  # greedy search warns that it knows no such thing
            eos_token_id=list(self._ends),
            pad_token_id=self._padding,
            forced_bos_token_id=None,
            forced_eos_token_id=None,
            max_length=min(self._max_positions, longest + (self._prompts.most or self._max_positions)),
            stopping_criteria=StoppingCriteriaList([limit]),
        )
        return written[:, longest:]
