"""Translation with transformers: beam search or sampling, in batches by length."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    DynamicCache,
    EncoderDecoderCache,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteriaList,
)

from subgraft.base.progress import ProgressCallback
from subgraft.config.corpora import Languages
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import SequenceFormat
from subgraft.modeling.inference.search import (
    DEFAULT_BATCH_SIZE,
    BatchSearch,
    LengthLimit,
    generate_ids,
    is_blank,
)
from subgraft.subwords.vocabulary.tokenizer import Tokenizer


@dataclass(frozen=True)
class Output:
    """A translation with its tokens, without start and end, and the model's probability of each."""

    text: str
    tokens: tuple[int, ...]
    probabilities: tuple[float, ...]


class Translator(BatchSearch):
    """Generates target texts with an encoder-decoder model; the output is in the order of the input.

    A blank source has an empty output.

    Args:
        model: The encoder-decoder.
        source: The tokenizer of sources.
        target: The tokenizer of outputs.
        sequence_format: The special tokens around both.
        beam: The beam size; None samples from the full distribution with torch's generator.
        max_length_ratio: The limit of an output in bytes, per byte of its source.
        max_positions: The maximum length of sources and outputs in tokens.
        tokens: Ids of the tokens that may be generated, besides the special ones of the format; None for all.
    """

    def __init__(
        self,
        model: nn.Module,
        source: Tokenizer,
        target: Tokenizer,
        sequence_format: SequenceFormat,
        *,
        beam: int | None,
        max_length_ratio: float,
        max_positions: int,
        tokens: Collection[int] | None = None,
    ) -> None:
        super().__init__(model, target)
        self._source = source
        self._target = target
        self._sequence_format = sequence_format
        # transformers warns about early_stopping in greedy search.
        self._search = (
            {"do_sample": True, "num_beams": 1, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
            if beam is None
            else {"do_sample": False, "num_beams": beam, "early_stopping": beam > 1}
        )
        self._ratio = max_length_ratio
        self._max_positions = max_positions
        beginning = [] if sequence_format.target_beginning is None else [sequence_format.target_beginning]
        self._allowed = None if tokens is None else RestrictToTokens([*tokens, *self._ends, *beginning])

    def __call__(
        self, texts: Sequence[str], batch_size: int = DEFAULT_BATCH_SIZE, progress: ProgressCallback | None = None
    ) -> list[str]:
        """Translations of `texts`. Leaves the model in evaluation mode."""
        outputs = [""] * len(texts)
        encoded, non_blank = self._encode_sources(texts)
        for indices, outputs_of_batch in self._written(non_blank, encoded, texts, batch_size, progress):
            for index, tokens in zip(indices, outputs_of_batch.tolist(), strict=True):
                outputs[index] = self._text(tokens)
        return outputs

    def with_probabilities(
        self, texts: Sequence[str], batch_size: int = DEFAULT_BATCH_SIZE, progress: ProgressCallback | None = None
    ) -> list[Output]:
        """The same translations with tokens and probabilities, which take one more forward pass."""
        outputs = [Output("", (), ())] * len(texts)
        encoded, non_blank = self._encode_sources(texts)
        for indices, outputs_of_batch in self._written(non_blank, encoded, texts, batch_size, progress):
            inputs, mask = self._padded([encoded[index] for index in indices], self._source.special["pad"])
            generated = torch.cat(
                [outputs_of_batch.new_full((len(indices), 1), self._sequence_format.start), outputs_of_batch], dim=1
            )
            probabilities = token_probabilities(self._model, inputs, mask, generated).tolist()
            for index, tokens, row in zip(indices, outputs_of_batch.tolist(), probabilities, strict=True):
                body, first = self._body(tokens), self._sequence_format.target_begins
                outputs[index] = Output(self._text(tokens), body, tuple(row[first : first + len(body)]))
        return outputs

    def _encode_sources(self, texts: Sequence[str]) -> tuple[list[list[int]], list[int]]:
        """The ids of each source with its special tokens, and the indices of the sources that are not blank."""
        beginning, ending = list(self._sequence_format.source_beginning), list(self._sequence_format.source_ending)
        limit = self._max_positions - len(beginning) - len(ending)
        bodies = self._source.encode_batch(texts)
        non_blank = [index for index, text in enumerate(texts) if not is_blank(text, bodies[index], self._source)]
        return [beginning + tokens[:limit] + ending for tokens in bodies], non_blank

    def _text(self, tokens: list[int]) -> str:
        """The output as one line: a byte-level vocabulary can generate line breaks."""
        return " ".join(self._target.decode(tokens).splitlines())

    def _body(self, tokens: list[int]) -> tuple[int, ...]:
        """The tokens after the target's beginning, before the end, or the padding of a truncated output."""
        ending = (*self._ends, self._target.special["pad"])
        ends = (position for position, token in enumerate(tokens) if token in ending)
        return tuple(tokens[self._sequence_format.target_begins : next(ends, len(tokens))])

    @torch.inference_mode()
    def _generate(self, sequences: Sequence[list[int]], texts: Sequence[str]) -> Tensor:
        input_ids, attention_mask = self._padded(sequences, self._source.special["pad"])
        self._lengths = self._lengths.to(input_ids.device)
        generated = generate_ids(
            self._model,
            input_ids=input_ids,
            attention_mask=attention_mask,
            **self._search,
            decoder_start_token_id=self._sequence_format.start,
            forced_bos_token_id=self._sequence_format.target_beginning,
            eos_token_id=list(self._ends),
            forced_eos_token_id=None,
            max_length=self._max_positions,
            past_key_values=BeamCache(),
            logits_processor=LogitsProcessorList([] if self._allowed is None else [self._allowed]),
            stopping_criteria=StoppingCriteriaList([LengthLimit(self._lengths, texts, self._ratio)]),
        )
        return generated[:, 1:]


class RestrictToTokens(LogitsProcessor):
    """Restricts outputs to these tokens."""

    def __init__(self, tokens: Collection[int]) -> None:
        self._tokens = torch.tensor(sorted(set(tokens)))

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        del input_ids
        tokens = self._tokens = self._tokens.to(scores.device)
        restricted = torch.full_like(scores, float("-inf"))
        restricted[:, tokens] = scores[:, tokens]
        return restricted


class BeamCache(EncoderDecoderCache):
    """The cache of an encoder-decoder that does not reorder the source's keys and values.

    After each token, beams are reordered within their sentence, and transformers copies all keys and values. Those of
    the source are the same for every beam of a sentence: copying them took a third of the search time.
    """

    def __init__(self) -> None:
        super().__init__(DynamicCache(), DynamicCache())

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        self.self_attention_cache.reorder_cache(beam_idx)


# The number of logits that `token_probabilities` has in memory at a time: a quarter of a gigabyte.
_LOGITS = 1 << 26


@torch.inference_mode()
def token_probabilities(model: nn.Module, input_ids: Tensor, attention_mask: Tensor, generated: Tensor) -> Tensor:
    """Probabilities [B, T - 1] of `generated[:, 1:]` under the softmax of beam and greedy search.

    They take one more forward pass over all positions. The scores that `generate` returns would be the logits of every
    beam at every step: 13 GB for 100 tokens of 32 sentences and 250,002 pieces. (transformers'
    compute_transition_scores also confuses the encoder's vocabulary with the decoder's.)

    Args:
        model: The encoder-decoder.
        input_ids: Sources [B, S].
        attention_mask: Their mask [B, S].
        generated: Outputs [B, T] of `generate`: the decoder's start, the output, and padding, whose probabilities are
            meaningless.
    """
    vocabulary: int = model.get_output_embeddings().weight.shape[0]  # type: ignore[operator]
    batch_size = max(1, _LOGITS // (vocabulary * generated.shape[1]))
    probabilities = []
    for start in range(0, len(generated), batch_size):
        part = slice(start, start + batch_size)
        logits = model(
            input_ids=input_ids[part],
            attention_mask=attention_mask[part],
            decoder_input_ids=generated[part, :-1],
            use_cache=False,
        ).logits.float()
        target_logits = logits.gather(2, generated[part, 1:, None])[..., 0]
        probabilities.append((target_logits - logits.logsumexp(2)).exp())
    return torch.cat(probabilities)


def translator_of(
    bundle: Bundle, languages: Languages | None, kind: type[Translator] = Translator, **search: Any
) -> Translator:
    """A translator with the tokenizers, the format and the positions of a model. search: as in `Translator`."""
    return kind(
        bundle.model,
        bundle.encoder,
        bundle.decoder,
        bundle.sequence_format(languages),
        max_positions=bundle.max_positions,
        **search,
    )
