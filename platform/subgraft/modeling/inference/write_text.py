"""Writing texts for sources with transformers: greedy search, beam search or sampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from subgraft.base.progress import ProgressCallback
from subgraft.config.evaluation import MeasurementSettings
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.conditioning.sources import Source, TextSource, pad_sources
from subgraft.modeling.families import family_of
from subgraft.modeling.inference.prompts import added_text
from subgraft.modeling.inference.search import count_unfinished, end_tokens, generate_ids, is_blank


class Writer:
    """Writes a text for each source, in order; a language model without a source writes as many unconditional texts.

    Args:
        bundle: The model and its tokenizers.
        settings: Beam search or sampling (with a seed that is set for every call), and blocking of repeated n-grams.
        max_tokens: The limit of each text in tokens.

    Attributes:
        unfinished: The number of texts of the last call without an end token.
    """

    def __init__(self, bundle: Bundle, settings: MeasurementSettings, max_tokens: int) -> None:
        self._bundle = bundle
        self._search = search_of(settings)
        self._seed = 0 if settings.draw is None else settings.draw.seed
        self._batch_size = settings.batch_size
        self._length = 1 + min(max_tokens, bundle.max_positions - 1)
        self._start = bundle.sequence_format(None).start
        self._ends = end_tokens(bundle.model, bundle.decoder)
        self.unfinished = 0

    def __call__(self, sources: Sequence[np.ndarray], progress: ProgressCallback | None = None) -> list[str]:
        """A text for each source, encoded by `modeling.conditioning.sources`; leaves the model in evaluation mode."""
        self._bundle.model.train(False)
        texts: list[str] = []
        self.unfinished = 0
        device = next(self._bundle.model.parameters()).device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(self._seed)
            for begin in range(0, len(sources), self._batch_size):
                end = min(begin + self._batch_size, len(sources))
                source, mask = pad_sources([sources[index] for index in range(begin, end)])
                written = self._generate(source.to(device), mask.to(device))
                self.unfinished += count_unfinished(written[:, 1:], self._ends)
                texts += [added_text(self._bundle.decoder, [], tokens[1:], self._ends) for tokens in written.tolist()]
                if progress is not None:
                    progress(len(texts), len(sources), "texts")
        return texts

    @torch.inference_mode()
    def _generate(self, source: Tensor, mask: Tensor) -> Tensor:
        """Tokens [B, T], the start first."""
        model: Any = self._bundle.model
        if family_of(model).has_source:
            inputs: dict[str, Any] = {"input_ids": source, "attention_mask": mask}
            inputs["decoder_start_token_id"] = self._start
        else:
            inputs = {"input_ids": torch.full((len(source), 1), self._start, device=source.device)}
            inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        return generate_ids(
            model,
            **inputs,
            **self._search,
            eos_token_id=list(self._ends),
            pad_token_id=self._bundle.padding[1],
            forced_bos_token_id=None,
            forced_eos_token_id=None,
            max_length=self._length,
        )


def written_for(
    write: Writer, read: Source[Any], sources: Sequence[Any], progress: ProgressCallback | None = None
) -> list[str]:
    """A text for each source, empty for blank text sources. read: encodes the sources."""
    indices = list(range(len(sources)))
    if isinstance(read, TextSource):
        token_ids = read.tokenizer.encode_batch(sources)
        indices = [index for index in indices if not is_blank(sources[index], token_ids[index], read.tokenizer)]
    texts = [""] * len(sources)
    non_blank = sources if len(indices) == len(sources) else [sources[index] for index in indices]
    for index, text in zip(indices, write(read.encode(non_blank), progress), strict=True):
        texts[index] = text
    return texts


def search_of(settings: MeasurementSettings) -> dict[str, Any]:
    """The arguments of `generate`."""
    ngrams = {} if settings.no_repeat_ngrams is None else {"no_repeat_ngram_size": settings.no_repeat_ngrams}
    draw, beam = settings.draw, settings.beam
    if draw is None:
        # transformers warns about early_stopping in greedy search.
        return {"do_sample": False, "num_beams": beam, "early_stopping": beam > 1, **ngrams}
    sampling = {"temperature": draw.temperature, "top_k": draw.top_k, "top_p": draw.top_p}
    return {"do_sample": True, "num_beams": 1, **sampling, **ngrams}
