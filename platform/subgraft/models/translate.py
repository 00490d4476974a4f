"""Text in, text out: beam search through transformers, batched by length."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn
from transformers import StoppingCriteriaList

from subgraft.models.beam_cache import BeamCache
from subgraft.models.conditioning import Conditioning
from subgraft.models.length_limit import LengthLimit, piece_bytes
from subgraft.vocabulary.tokenizer import Tokenizer


class Translator:
    """Generates target texts with an encoder-decoder model; the output is in the order of the input.

    max_length_ratio: bytes of output for each byte of source at which an output is ended.
    cut: how many outputs of the last call did not end of themselves.
    """

    def __init__(
        self,
        model: nn.Module,
        source: Tokenizer,
        target: Tokenizer,
        conditioning: Conditioning,
        *,
        beam: int,
        max_length_ratio: float,
        max_positions: int,
    ) -> None:
        self._model = model
        self._source = source
        self._target = target
        self._conditioning = conditioning
        self._beam = beam
        self._ratio = max_length_ratio
        self._max_positions = max_positions
        self._lengths = piece_bytes(target)
        self.cut = 0

    def __call__(
        self, texts: Sequence[str], batch_size: int = 32, progress: Callable[[int, int, str], None] | None = None
    ) -> list[str]:
        """Translations of `texts`. The model is left in evaluation mode."""
        self._model.eval()
        ending = list(self._conditioning.source_ending)
        limit = self._max_positions - len(ending)
        encoded = [tokens[:limit] + ending for tokens in self._source.encode_batch(texts)]
        order = sorted(range(len(texts)), key=lambda i: -len(encoded[i]))
        outputs = [""] * len(texts)
        self.cut = 0
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            generated = self._batch([encoded[i] for i in chosen], [texts[i] for i in chosen])
            for index, tokens in zip(chosen, generated, strict=True):
                outputs[index] = self._target.decode(tokens)
                self.cut += self._target.special["eos"] not in tokens[1:]
            if progress is not None:
                progress(min(start + batch_size, len(order)), len(order), "sentences")
        return outputs

    @torch.inference_mode()
    def _batch(self, sources: Sequence[list[int]], texts: Sequence[str]) -> list[list[int]]:
        longest = max(len(tokens) for tokens in sources)
        padding = self._source.special["pad"]
        device = next(self._model.parameters()).device
        input_ids = torch.tensor([tokens + [padding] * (longest - len(tokens)) for tokens in sources], device=device)
        lengths = torch.tensor([len(tokens) for tokens in sources], device=device)
        self._lengths = self._lengths.to(device)
        generated = self._model.generate(  # type: ignore[operator]
            input_ids=input_ids,
            attention_mask=(torch.arange(longest, device=device) < lengths[:, None]).long(),
            num_beams=self._beam,
            do_sample=False,
            early_stopping=self._beam > 1,  # greedy search warns that it knows no such thing
            decoder_start_token_id=self._conditioning.start,
            forced_bos_token_id=None,
            forced_eos_token_id=None,
            max_length=self._max_positions,
            past_key_values=BeamCache(),
            stopping_criteria=StoppingCriteriaList([LengthLimit(self._lengths, texts, self._ratio)]),
        )
        found: list[list[int]] = generated.tolist()
        return found
