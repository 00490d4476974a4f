# mypy: allow-untyped-calls
"""The parts that all searches share: batches, `generate`, end tokens, and the length limit of outputs.

The limit is in bytes of text relative to the source, so that it is the same for every vocabulary. With a limit in
tokens, a repetitive output in long subwords would be three times as long as one in short subwords, and the better
vocabulary would seem slower.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationConfig, StoppingCriteria

from subgraft.base.progress import ProgressCallback
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# The default batch size, in sentences.
DEFAULT_BATCH_SIZE = 32
# Added to every limit, for short sources; in bytes.
MARGIN = 30
# The generation settings of a published model that are applied. Others select the search, the number of outputs, the
# return type or a cache; they would override the caller's arguments or cause errors.
APPLIED_SETTINGS = (
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "decoder_start_token_id",
    "encoder_no_repeat_ngram_size",
    "encoder_repetition_penalty",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "forced_bos_token_id",
    "guidance_scale",
    "length_penalty",
    "min_length",
    "min_new_tokens",
    "no_repeat_ngram_size",
    "pad_token_id",
    "remove_invalid_values",
    "renormalize_logits",
    "repetition_penalty",
    "sequence_bias",
    "suppress_tokens",
    "watermarking_config",
)


class BatchSearch:
    """A search in batches of descending length.

    Attributes:
        unfinished: The number of outputs of the last call without an end token.
        tokens: The number of tokens of the last call's outputs, without their ends.
        seconds: The duration of the last call's search.
    """

    def __init__(self, model: nn.Module, tokenizer: Tokenizer) -> None:
        self._model = model
        self._ends = end_tokens(model, tokenizer)
        self._padding = tokenizer.special.get("pad", self._ends[0])
        self._lengths = piece_bytes(tokenizer)
        self._begin()

    @property
    def _device(self) -> torch.device:
        return next(self._model.parameters()).device

    def _begin(self) -> None:
        """Reset the counts of a call."""
        self.unfinished = 0
        self.tokens = 0
        self.seconds = 0.0

    def _written(
        self,
        indices: Sequence[int],
        sequences: Sequence[list[int]],
        texts: Sequence[str],
        batch_size: int,
        progress: ProgressCallback | None,
    ) -> Iterator[tuple[list[int], Tensor]]:
        """Batches of indices, and the ids written for them [B, T]. Leaves the model in evaluation mode.

        Args:
            indices: The sequences to search for.
            sequences: The ids of all sources or prompts.
            texts: Their texts, which limit the lengths of outputs.
            batch_size: The number of sequences in a batch.
            progress: Called after each batch.
        """
        self._model.eval()
        self._begin()
        for chosen in batches(indices, sequences, batch_size, progress):
            started = time.perf_counter()
            written = self._generate([sequences[index] for index in chosen], [texts[index] for index in chosen])
            self.seconds += time.perf_counter() - started
            self.unfinished += count_unfinished(written, self._ends)
            self.tokens += count_tokens(written, [*self._ends, self._padding])
            yield chosen, written

    def _generate(self, sequences: Sequence[list[int]], texts: Sequence[str]) -> Tensor:
        """The ids written for each sequence [B, T], padded at the end."""
        raise NotImplementedError

    def _padded(self, sequences: Sequence[list[int]], padding: int) -> tuple[Tensor, Tensor]:
        """Sequences as one tensor [B, S], padded at the end, and its mask."""
        lengths = torch.tensor([len(tokens) for tokens in sequences], device=self._device)
        longest = max(map(len, sequences))
        rows = [[*tokens, *[padding] * (longest - len(tokens))] for tokens in sequences]
        mask = (torch.arange(longest, device=self._device) < lengths[:, None]).long()
        return torch.tensor(rows, dtype=torch.long, device=self._device), mask


def batches(
    indices: Sequence[int], sequences: Sequence[Sequence[int]], size: int, progress: ProgressCallback | None
) -> Iterator[list[int]]:
    """Batches of indices, longest sequences first."""
    order = sorted(indices, key=lambda index: -len(sequences[index]))
    for begin, end in pairwise([*range(0, len(order), size), len(order)]):
        yield order[begin:end]
        if progress is not None:
            progress(end, len(order), "sentences")


def is_blank(text: str, ids: Sequence[int], tokenizer: Tokenizer) -> bool:
    """Whether a source consists of white space or of characters that the vocabulary lacks, so its output must be empty.

    ids: the text's token ids.
    """
    return not text.strip() or all(tokenizer.pieces[token] == tokenizer.mark.value for token in ids)


def end_tokens(model: Any, tokenizer: Tokenizer) -> tuple[int, ...]:
    """The ids that end an output: the tokenizer's end token, and others in the model's generation settings.

    The tokenizer's, which is used in training, comes first. An instruct model ends a turn with another token than a
    text. Ids that are not special tokens of the tokenizer are ignored.
    """
    configured = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    others = configured if isinstance(configured, list) else [configured]
    ends = [tokenizer.special["eos"], *(token for token in others if token in tokenizer.special_ids)]
    return tuple(dict.fromkeys(ends))


def generate_ids(model: nn.Module, **arguments: Any) -> Tensor:
    """The output ids of transformers' `generate`. arguments: they override the model's generation settings."""
    generator: Any = model
    own = generator.generation_config
    generator.generation_config = GenerationConfig()
    for name in APPLIED_SETTINGS:
        setattr(generator.generation_config, name, getattr(own, name, None))
    try:
        ids: Tensor = generator.generate(**arguments)
    finally:
        generator.generation_config = own
    return ids


def count_unfinished(written: Tensor, ends: Sequence[int]) -> int:
    """The number of outputs [B, T] without an end token."""
    return int((~torch.isin(written, torch.tensor(ends, device=written.device)).any(1)).sum())


def count_tokens(written: Tensor, ends: Sequence[int]) -> int:
    """The number of tokens of outputs [B, T] before the first of these."""
    return int((torch.isin(written, torch.tensor(ends, device=written.device)).cumsum(1) == 0).sum())


def piece_bytes(tokenizer: Tokenizer) -> Tensor:
    """UTF-8 bytes that each piece adds to a text [V], the space before a word included; at least one."""
    return torch.tensor(
        [len(entry.surface.encode()) + entry.word_initial if entry is not None else 1 for entry in tokenizer.entries]
    )


def output_limit(source: str, ratio: float) -> float:
    """The limit of an output in bytes."""
    return ratio * len(source.encode()) + MARGIN


class LengthLimit(StoppingCriteria):
    """Stops outputs that exceed `ratio` times the bytes of their source, plus a margin.

    Args:
        lengths: The bytes of each piece [V].
        sources: The texts of the batch, in order.
        ratio: Bytes of output per byte of source.
        prompt_length: The number of prompt tokens, which are not part of the output.
    """

    def __init__(self, lengths: Tensor, sources: Sequence[str], ratio: float, prompt_length: int = 0) -> None:
        self._lengths = lengths
        self._prompt_length = prompt_length
        self._limits = torch.tensor([output_limit(source, ratio) for source in sources], device=lengths.device)

    def __call__(self, input_ids: Tensor, scores: object, **kwargs: Any) -> Tensor:
        """Which of the outputs so far [B x beams, T] must stop; beams of one source are adjacent."""
        beams = len(input_ids) // len(self._limits)
        # Published tables may have more rows than there are pieces; these rows count as the last piece.
        pieces = input_ids[:, self._prompt_length :].clamp(max=len(self._lengths) - 1)
        return self._lengths[pieces].sum(dim=1) >= self._limits.repeat_interleave(beams)


def allowed_length(tokens: Sequence[int], lengths: Sequence[int], source: str, ratio: float) -> int:
    """The number of an output's tokens before `LengthLimit` stops it; all tokens if it does not.

    For searches without this limit, whose outputs are truncated afterwards. lengths: bytes of each piece.
    """
    limit = output_limit(source, ratio)
    sizes = accumulate(lengths[min(token, len(lengths) - 1)] for token in tokens)
    return next((count for count, total in enumerate(sizes, 1) if total >= limit), len(tokens))
