"""Decoding with llama.cpp: language models continue prompts there, greedily or by sampling.

A model is written to a temporary GGUF whose tokens are numbers. llama.cpp reads and writes ids, and the model's own
tokenizer does the rest: any vocabulary can be used, also one that llama.cpp's rules cannot express, and no token ends
an output because of its name.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from subgraft.base.errors import UserError
from subgraft.base.json_io import read_object
from subgraft.base.progress import ProgressCallback
from subgraft.modeling.bundle import DEFAULT_MAX_LENGTH, Bundle
from subgraft.modeling.exporting.gguf import compare_probabilities, copy_gguf, write_gguf
from subgraft.modeling.families import family_of, head_in
from subgraft.modeling.gguf_files import described_model, require_gguf, require_layout
from subgraft.modeling.hub import read_config
from subgraft.modeling.inference.complete import Completion, Sampling, batches_of
from subgraft.modeling.inference.llama_cpp import LlamaCpp, require_llama_cpp
from subgraft.modeling.inference.prompts import ChatTemplate, Prompts, Turn
from subgraft.modeling.inference.search import (
    APPLIED_SETTINGS,
    DEFAULT_BATCH_SIZE,
    batches,
    end_tokens,
    output_limit,
    piece_bytes,
)
from subgraft.modeling.sides import side
from subgraft.subwords.vocabulary.llama_cpp import name_of, numbered
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

_GREEDY = Sampling(0.0)
_TYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
# llama.cpp's memory for keys and values is a multiple of so many tokens, and is limited to so many.
_BLOCK, _LARGEST = 256, 1 << 15
_SUPPORTED = ("repetition_penalty", "bad_words_ids", "suppress_tokens")
# Settings of generation that change nothing in greedy search and sampling without an encoder; others are refused.
_WITHOUT_EFFECT = {
    *("bos_token_id", "decoder_start_token_id", "eos_token_id", "pad_token_id", "forced_bos_token_id"),
    *("length_penalty", "encoder_no_repeat_ngram_size", "encoder_repetition_penalty"),
    *("remove_invalid_values", "renormalize_logits"),
}


class LlamaCppModel:
    """A language model in llama.cpp, which opens it with as much memory as its prompts need.

    Attributes:
        tokenizer: Its tokenizer.
        start: The token before every plain prompt.
        ends: The ids that end an output.
        max_positions: The maximum length of prompt and output in tokens.
    """

    def __init__(
        self,
        write: Callable[[Path], None],
        tokenizer: Tokenizer,
        start: int,
        ends: Sequence[int],
        max_positions: int,
        penalties: dict[str, Any],
    ) -> None:
        self.tokenizer, self.start, self.ends, self.max_positions = tokenizer, start, ends, max_positions
        folder = Path(tempfile.mkdtemp(prefix="subgraft-llama-cpp-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._file = folder / "model.gguf"
        write(self._file)
        self._penalties = penalties
        self._running: LlamaCpp | None = None
        self._positions, self._sequences = 0, 0

    @classmethod
    def of_bundle(cls, bundle: Bundle, where: str = "") -> LlamaCppModel:
        """A copy of a model's current weights in fp32, compared with it. where: its name in messages.

        Raises UserError if llama.cpp is not installed, lacks something that the model needs, or computes another thing.
        """
        require_engine(bundle.model.config.to_dict(), bundle.model.generation_config.to_dict(), where)
        bundle.model.train(False)
        tokenizer, ends = bundle.decoder, end_tokens(bundle.model, bundle.decoder)
        vocabulary = numbered(len(side(bundle.model, "decoder").input.weight), ends[0])
        start, penalties = bundle.sequence_format(None).start, _penalties(bundle)

        def write(file: Path) -> None:
            write_gguf(file, bundle, {}, vocabulary, "f32")
            running = LlamaCpp(file, positions=_BLOCK, threads=torch.get_num_threads())
            compare_probabilities(running, bundle, _TYPES[bundle.model.dtype], where)

        return cls(write, tokenizer, start, ends, bundle.max_positions, penalties)

    @classmethod
    def of_file(cls, path: Path) -> LlamaCppModel:
        """The model of a GGUF, with its weights as they are. Raises UserError for what cannot be read or run."""
        require_llama_cpp()
        file, family, config, tokenizer = described_model(path)
        configured = config["eos_token_id"]
        further = [i for i in (configured if isinstance(configured, list) else []) if i in tokenizer.special_ids]
        ends = tuple(dict.fromkeys([tokenizer.special["eos"], *further]))
        vocabulary = numbered(config["vocab_size"], ends[0])
        start = family.sequence_format(config, tokenizer, tokenizer, None).start
        limit = family.position_limit(config) or DEFAULT_MAX_LENGTH
        layout = require_layout(family, config, str(path))
        return cls(lambda out: copy_gguf(file, out, layout.keys, vocabulary), tokenizer, start, ends, limit, {})

    def stream(
        self, prompts: Sequence[Sequence[int]], tokens: int, sampling: Sampling = _GREEDY
    ) -> Generator[tuple[int, int]]:
        """The index of a prompt and its next token, up to an end token, as they are written.

        tokens: the limit of each output. To close the iterator ends the search.
        """
        drawn = {"temperature": sampling.temperature, "top_p": sampling.top_p}
        samplers = [*(["penalties"] if "repeat_penalty" in self._penalties else []), "temperature", "top_p"]
        settings = {**drawn, "samplers": samplers, "repeat_penalty": 1.0, **self._penalties}
        if sampling.seed is not None:
            settings["seed"] = sampling.seed
        running = self._opened(max(map(len, prompts)) + tokens, len(prompts))
        return running.stream(prompts, tokens, stop=[name_of(end) for end in self.ends], **settings)

    def _opened(self, positions: int, sequences: int) -> LlamaCpp:
        """llama.cpp with memory for sequences of so many tokens, some of which wait if there is too much of them."""
        positions = max(self._positions, -(-(positions + 1) // _BLOCK) * _BLOCK)
        sequences = min(max(self._sequences, sequences), max(1, _LARGEST // positions))
        if self._running is not None and (positions, sequences) == (self._positions, self._sequences):
            return self._running
        self._running = None  # its memory is free before more is taken
        threads = torch.get_num_threads()
        self._running = running = LlamaCpp(self._file, positions=positions, sequences=sequences, threads=threads)
        self._positions, self._sequences = positions, sequences
        return running


def require_engine(config: Mapping[str, Any], generation: Mapping[str, Any], where: str) -> None:
    """Raises UserError if llama.cpp is not installed or lacks something that a model needs.

    generation: the model's generation settings. where: its name in messages.
    """
    require_llama_cpp()
    require_gguf()
    if (head := head_in(config)) is not None:
        hint = "Leave `engine` out: transformers runs it."
        raise UserError(f"this model has {head}, which llama.cpp does not run", where=where, hint=hint)
    require_layout(family_of(config), config, where)
    lacking = [name for name in APPLIED_SETTINGS if name not in (*_WITHOUT_EFFECT, *_SUPPORTED)]
    named = [name for name in lacking if generation.get(name)]
    if not named and any(len(words) > 1 for words in generation.get("bad_words_ids") or ()):
        named = ["bad_words_ids of several tokens"]
    if named:
        what = f"llama.cpp lacks a generation setting of this model, {named[0]}"
        raise UserError(what, where=where, hint="Decode with transformers, or take it out of generation_config.json.")


def require_engine_at(directory: Path, where: str) -> None:
    """The same for a directory, by its configuration alone."""
    config, file = read_config(directory), directory / "generation_config.json"
    require_engine(config, read_object(file) if file.is_file() else config, where)


def _penalties(bundle: Bundle) -> dict[str, Any]:
    """The model's own settings of generation, under the server's names."""
    generation = bundle.model.generation_config
    settings: dict[str, Any] = {}
    if penalty := getattr(generation, "repetition_penalty", None):
        settings |= {"repeat_penalty": float(penalty), "repeat_last_n": bundle.max_positions}
    words: list[list[int]] = getattr(generation, "bad_words_ids", None) or []
    never = [*(token for (token,) in words), *(getattr(generation, "suppress_tokens", None) or ())]
    return {**settings, "logit_bias": [[token, False] for token in never]} if never else settings


class LlamaCppContinuer:
    """Continues prompts greedily, with the outputs of `Continuer` up to the rounding of the engines.

    Args:
        model: The model.
        max_length_ratio: The limit of an output in bytes, per byte of its prompt.
        max_tokens: The limit of an output in tokens; None for no limit.
        chat: Treats each prompt as a user's turn to be answered.

    Attributes:
        unfinished: The number of outputs of the last call without an end token.
        tokens: The number of tokens of the last call's outputs, without their ends.
        seconds: The duration of the last call's search.
    """

    def __init__(
        self,
        model: LlamaCppModel,
        *,
        max_length_ratio: float,
        max_tokens: int | None = None,
        chat: ChatTemplate | None = None,
    ) -> None:
        self._model = model
        self._prompts = Prompts(model.tokenizer, model.start, model.max_positions, max_length_ratio, max_tokens, chat)
        self._lengths = piece_bytes(model.tokenizer).tolist()
        self.unfinished, self.tokens, self.seconds = 0, 0, 0.0

    def __call__(
        self, prompts: Sequence[Turn], batch_size: int = DEFAULT_BATCH_SIZE, progress: ProgressCallback | None = None
    ) -> list[str]:
        """The continuation of each prompt."""
        ids, outputs, ends = self._prompts.ids(prompts), [""] * len(prompts), self._model.ends
        # In bytes; the length of a question does not limit its answer.
        limits = [
            output_limit(prompt, self._prompts.ratio)
            if self._prompts.chat is None and isinstance(prompt, str)
            else float("inf")
            for prompt in prompts
        ]
        self.unfinished, self.tokens, self.seconds = 0, 0, 0.0
        for batch in batches(range(len(prompts)), ids, batch_size, progress):
            started = time.perf_counter()
            rows = self._written([ids[i] for i in batch], [limits[i] for i in batch])
            self.seconds += time.perf_counter() - started
            for i, row in zip(batch, rows, strict=True):
                outputs[i] = self._prompts.output(ids[i], row, ends)
                ended = bool(row) and row[-1] in ends
                self.unfinished += not ended
                self.tokens += len(row) - ended
        return outputs

    def _written(self, prompts: Sequence[Sequence[int]], limits: Sequence[float]) -> list[list[int]]:
        """The ids of each output, up to its end token or to the limit in bytes, as `LengthLimit` applies it."""
        rows: list[list[int]] = [[] for _ in prompts]
        missing, unfinished = [*limits], {*range(len(prompts))}
        room = self._model.max_positions - max(map(len, prompts))
        most = min(room, self._prompts.max_output_tokens or room, max(limits) + 1)
        if room < 1:
            return rows
        with closing(self._model.stream(prompts, int(most))) as stream:
            for i, token in stream:
                if i not in unfinished:
                    continue
                rows[i].append(token)
                missing[i] -= self._lengths[min(token, len(self._lengths) - 1)]
                if token in self._model.ends or missing[i] <= 0:
                    unfinished.discard(i)
                if not unfinished:
                    break
        return rows


class LlamaCppCompleter:
    """Completes a server's requests; a `Completer`."""

    engine = "llama.cpp"
    seeds = True

    def __init__(self, model: LlamaCppModel) -> None:
        self._model = model
        self.tokenizer, self.start, self.max_positions = model.tokenizer, model.start, model.max_positions

    def __call__(self, completions: Sequence[Completion]) -> None:
        for batch in batches_of(completions, self.max_positions):
            tokens = max(completion.max_tokens for completion in batch)
            prompts = [completion.prompt for completion in batch]
            with closing(self._model.stream(prompts, tokens, batch[0].sampling)) as stream:
                for i, token in stream:
                    batch[i].add(token, self.tokenizer, self._model.ends)
                    if all(completion.finish or completion.cancelled for completion in batch):
                        break
