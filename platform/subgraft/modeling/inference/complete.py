"""Completes prompts with a decoder-only model, for a server that streams text while it is generated.

Prompts with different limits and stop strings share a batch, with greedy search or sampling. Both engines report each
token as it is generated, so a completion can be streamed, and ends as soon as a stop string occurs or its client has
disconnected.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor
from transformers import StoppingCriteria, StoppingCriteriaList

from subgraft.modeling.bundle import Bundle
from subgraft.modeling.inference.continue_text import left_pad
from subgraft.modeling.inference.ctranslate2_directory import ExportedModel
from subgraft.modeling.inference.ctranslate2_search import engine, search_options
from subgraft.modeling.inference.search import end_tokens, generate_ids
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# The number of prompt tokens that are decoded with an output, so that its first word includes the space before it.
_CONTEXT = 8


class Sampling(NamedTuple):
    """How the next token is chosen: temperature 0 takes the most probable one. seed: of the drawing; by default any."""

    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None


@dataclass
class Completion:
    """One prompt and the text that is written for it.

    Attributes:
        prompt: The prompt's token ids.
        max_tokens: The limit of the output in tokens.
        sampling: How tokens are chosen.
        stops: Strings that end the output, and are not part of it.
        on_text: Called with each new part of the text, in the engine's thread.
        written: The token ids of the output, without an end token.
        text: The text of the output so far.
        finish: The reason for its end: `stop` for an end token or a string of `stops`, `length` for the limit.
        cancelled: If it is set to True, the output ends at its next token.
    """

    prompt: Sequence[int]
    max_tokens: int
    sampling: Sampling
    stops: Sequence[str] = ()
    on_text: Callable[[str], None] | None = None
    written: list[int] = field(default_factory=list)
    text: str = ""
    finish: Literal["stop", "length"] | None = None
    cancelled: bool = False

    def add(self, token: int, tokenizer: Tokenizer, ends: Sequence[int]) -> bool:
        """Add the next token. Returns whether the output has ended."""
        if self.finish or self.cancelled:
            return True
        if token in ends:
            self.finish = "stop"
        else:
            self.written.append(token)
            if len(self.written) >= self.max_tokens:
                self.finish = "length"
        self._update_text(tokenizer)
        return self.finish is not None

    def _update_text(self, tokenizer: Tokenizer) -> None:
        """Decode the text, up to a stop string, and report its new part."""
        context = [*self.prompt[-_CONTEXT:]]
        before, full_text = tokenizer.decode(context), tokenizer.decode([*context, *self.written])
        text = full_text[len(before) :] if full_text.startswith(before) else tokenizer.decode(self.written)
        stop = min((position for position in map(text.find, self.stops) if position >= 0), default=None)
        if stop is not None:
            text, self.finish = text[:stop], "stop"
        elif self.finish is None:
            # The next token may change the end of the text: half a character, or the start of a stop.
            incomplete = len(text) - len(text.rstrip("\ufffd"))
            starts = (size for stop in self.stops for size in range(1, len(stop)) if text.endswith(stop[:size]))
            text = text[: len(text) - max(incomplete, max(starts, default=0))]
        added, self.text = text[len(self.text) :], text
        if added and self.on_text is not None:
            self.on_text(added)


class Completer(Protocol):
    """Completes batches with one engine.

    Attributes:
        engine: The engine's name.
        seeds: Whether a seed repeats what it draws.
        tokenizer: The model's tokenizer.
        start: The token before every plain prompt.
        max_positions: The maximum length of prompt and output in tokens.
    """

    engine: str
    seeds: bool
    tokenizer: Tokenizer
    start: int
    max_positions: int

    def __call__(self, completions: Sequence[Completion]) -> None: ...


class TorchCompleter:
    """Completes with transformers."""

    engine = "PyTorch"
    seeds = True

    def __init__(self, bundle: Bundle) -> None:
        self._model: Any = bundle.model
        self._model.train(False)
        self.tokenizer, self.max_positions = bundle.decoder, bundle.max_positions
        self.start = bundle.sequence_format(None).start
        self._ends = end_tokens(bundle.model, bundle.decoder)

    @torch.inference_mode()
    def __call__(self, completions: Sequence[Completion]) -> None:
        device = next(self._model.parameters()).device
        for batch in batches_of(completions, self.max_positions):
            temperature, top_p, seed = batch[0].sampling
            sampling = {"do_sample": True, "temperature": temperature, "top_p": top_p, "top_k": 0}
            input_ids, mask = left_pad([list(completion.prompt) for completion in batch], device)
            with torch.random.fork_rng(enabled=seed is not None):
                if seed is not None:
                    torch.manual_seed(seed)
                generate_ids(
                    self._model,
                    input_ids=input_ids,
                    attention_mask=mask,
                    **(sampling if temperature else {"do_sample": False}),
                    num_beams=1,
                    eos_token_id=list(self._ends),
                    pad_token_id=self.tokenizer.special.get("pad", self._ends[0]),
                    forced_bos_token_id=None,
                    forced_eos_token_id=None,
                    max_new_tokens=max(completion.max_tokens for completion in batch),
                    stopping_criteria=StoppingCriteriaList([_ReportTokens(batch, self.tokenizer, self._ends)]),
                )


class _ReportTokens(StoppingCriteria):
    """Adds each step's tokens to the completions of a batch; ends those that are complete."""

    def __init__(self, batch: Sequence[Completion], tokenizer: Tokenizer, ends: Sequence[int]) -> None:
        self._batch, self._tokenizer, self._ends = batch, tokenizer, ends

    def __call__(self, input_ids: Tensor, scores: object, **kwargs: Any) -> Tensor:
        steps = zip(self._batch, input_ids[:, -1].tolist(), strict=True)
        ended = [completion.add(token, self._tokenizer, self._ends) for completion, token in steps]
        return torch.tensor(ended, device=input_ids.device)


class ExportedCompleter:
    """Completes with CTranslate2."""

    engine = "CTranslate2"
    seeds = False  # a seed has no effect on threads that have drawn before

    def __init__(self, exported: ExportedModel) -> None:
        self.tokenizer, self.max_positions = exported.decoder, exported.max_positions
        self.start = exported.sequence_format().start
        self._ends = exported.ends
        self._names = exported.vocabularies()["decoder"]
        self._options = search_options(exported)
        self._engine = engine(exported)

    def __call__(self, completions: Sequence[Completion]) -> None:
        for batch in batches_of(completions, self.max_positions):
            temperature, top_p, _ = batch[0].sampling
            sampling = {"sampling_topk": 0, "sampling_temperature": temperature, "sampling_topp": top_p}
            self._engine.generate_batch(
                [[self._names[token] for token in completion.prompt] for completion in batch],
                include_prompt_in_result=False,
                max_length=max(completion.max_tokens for completion in batch),
                return_end_token=True,
                callback=self._reporter(batch),
                **(sampling if temperature else {}),
                **self._options,
            )

    def _reporter(self, batch: Sequence[Completion]) -> Callable[[Any], bool]:
        return lambda step: batch[step.batch_id].add(step.token_id, self.tokenizer, self._ends)


def batches_of(completions: Sequence[Completion], max_positions: int) -> Iterator[list[Completion]]:
    """Batches of completions with the same sampling, in which the longest prompt leaves room for the longest output.

    One with a seed is alone, so that others do not change what it draws.
    """
    by_sampling: defaultdict[tuple[Sampling, int | None], list[Completion]] = defaultdict(list)
    for number, completion in enumerate(completions):
        if not completion.cancelled:
            alone = None if completion.sampling.seed is None else number
            by_sampling[completion.sampling, alone].append(completion)
    for group in by_sampling.values():
        batch: list[Completion] = []
        for completion in sorted(group, key=lambda completion: len(completion.prompt)):
            if (
                batch
                and len(completion.prompt) + max(other.max_tokens for other in [*batch, completion]) > max_positions
            ):
                yield batch
                batch = []
            batch.append(completion)
        yield batch
