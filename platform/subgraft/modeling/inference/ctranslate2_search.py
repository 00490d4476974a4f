"""Translating and continuing text with CTranslate2 and an exported model.

Outputs have the same special tokens and the same limit in bytes as those of `Translator` and `Continuer`. CTranslate2
does not support this limit, so it may search beyond it, and outputs are truncated afterwards.

`FastTranslator` and `FastContinuer` have exactly the outputs of those: sentences with a hypothesis that does not end
within the limit are searched again by transformers. Greedy outputs are equal up to the limit, so all of them come from
CTranslate2.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from subgraft.base.errors import UserError
from subgraft.base.progress import ProgressCallback
from subgraft.base.security.terminal_escaping import say
from subgraft.config.corpora import Languages
from subgraft.modeling.inference.continue_text import Continuer
from subgraft.modeling.inference.ctranslate2_directory import ExportedModel
from subgraft.modeling.inference.int8_products import choose_library, exact_products
from subgraft.modeling.inference.prompts import ChatTemplate, Prompts
from subgraft.modeling.inference.search import (
    DEFAULT_BATCH_SIZE,
    BatchSearch,
    allowed_length,
    batches,
    is_blank,
    output_limit,
    piece_bytes,
)
from subgraft.modeling.inference.translate import Translator

_INEXACT = (
    "{}: on this processor CTranslate2's products of int8 are wrong, so this model is computed in float32: the same "
    "outputs, more slowly. Set CT2_USE_MKL=1 before the process starts for those of MKL."
)
# A search whose limit in bytes is applied afterwards stops after the number of tokens that have this many bytes each.
_BYTES_PER_TOKEN = 2


class ExportedSearch:
    """A search with an exported model.

    Args:
        exported: The exported model.
        languages: The languages; by default those of the export.
        beam: The beam size; 1 is greedy search.
        max_length_ratio: The limit of an output in bytes, per byte of its source or prompt.
        running: The model's `engine`, if it is already loaded.

    Attributes:
        unfinished: The number of outputs of the last call without an end token.
    """

    def __init__(
        self,
        exported: ExportedModel,
        languages: Languages | None,
        *,
        beam: int,
        max_length_ratio: float,
        running: Any = None,
    ) -> None:
        self._exported = exported
        self._format = exported.sequence_format(languages)
        self._beam = beam
        self._search = {"beam_size": beam, **search_options(exported)}
        self._ratio = max_length_ratio
        self._names = exported.vocabularies()
        self._lengths = piece_bytes(exported.decoder).tolist()
        self._engine: Any = engine(exported) if running is None else running
        self.unfinished = 0

    @property
    def _counted_prefix(self) -> list[int]:
        """Tokens before an output that `LengthLimit` counts as a part of it."""
        return []

    def _outputs(
        self,
        indices: Sequence[int],
        sequences: Sequence[Sequence[int]],
        texts: Sequence[str],
        batch_size: int,
        progress: ProgressCallback | None,
    ) -> list[list[int]]:
        """The ids of each text's output, including its end token, if any; none for texts whose index is missing."""
        outputs: list[list[int]] = [[]] * len(texts)
        self.unfinished = 0
        for batch in batches(indices, sequences, batch_size, progress):
            outputs_of_batch = self._search_batch(
                [sequences[index] for index in batch], [texts[index] for index in batch]
            )
            for index, tokens in zip(batch, outputs_of_batch, strict=True):
                outputs[index] = tokens
                self.unfinished += not self._exported.has_ended(tokens)
        return outputs

    def _search_batch(self, sequences: Sequence[Sequence[int]], texts: Sequence[str]) -> list[list[int]]:
        hypotheses = self._hypotheses(sequences, texts, None)
        return [self._truncate(each[0], text) for each, text in zip(hypotheses, texts, strict=True)]

    def search_within_limit(self, sequences: Sequence[Sequence[int]], texts: Sequence[str]) -> list[list[int] | None]:
        """Outputs of one batch; None for a sequence for which the limit in bytes might change the best hypothesis.

        It cannot if all hypotheses in the beam end within the limit. A search that stops too early only costs time.
        sequences: ids with the special tokens around them.
        """
        if self._beam == 1:
            return list(self._search_batch(sequences, texts))
        longest = int(max(output_limit(text, self._ratio) for text in texts) / _BYTES_PER_TOKEN) + 1
        hypotheses = self._hypotheses(sequences, texts, longest, num_hypotheses=self._beam)
        outputs: list[list[int] | None] = []
        for beam, text in zip(hypotheses, texts, strict=True):
            ended = all(self._exported.has_ended(tokens) for tokens in beam)
            within = all(len(self._truncate(tokens, text)) == len(tokens) for tokens in beam)
            outputs.append(beam[0] if ended and within else None)
        return outputs

    def _hypotheses(
        self, sequences: Sequence[Sequence[int]], texts: Sequence[str], max_tokens: int | None, **options: Any
    ) -> list[list[list[int]]]:
        """The ids of each sequence's hypotheses, best first."""
        raise NotImplementedError

    def _truncate(self, tokens: list[int], text: str) -> list[int]:
        """The output up to the limit."""
        prefix = self._counted_prefix
        return tokens[: allowed_length([*prefix, *tokens], self._lengths, text, self._ratio) - len(prefix)]


class ExportedTranslator(ExportedSearch):
    """Translates with an exported encoder-decoder, in the order of the input; a blank source has an empty output."""

    @property
    def _counted_prefix(self) -> list[int]:
        return [self._format.start]

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: token for token, name in enumerate(self._names["decoder"])}

    def __call__(
        self, texts: Sequence[str], batch_size: int = DEFAULT_BATCH_SIZE, progress: ProgressCallback | None = None
    ) -> list[str]:
        """Translations of `texts`, each one line."""
        decode = self._exported.decoder.decode
        return [" ".join(decode(tokens).splitlines()) for tokens in self.tokens(texts, batch_size, progress)]

    def tokens(
        self, texts: Sequence[str], batch_size: int = DEFAULT_BATCH_SIZE, progress: ProgressCallback | None = None
    ) -> list[list[int]]:
        """The ids of each output, including labels at its beginning and its end token, if any."""
        form, encoder = self._format, self._exported.encoder
        limit = self._exported.max_positions - len(form.source_beginning) - len(form.source_ending)
        bodies = [tokens[:limit] for tokens in encoder.encode_batch(texts)]
        sources = [[*form.source_beginning, *body, *form.source_ending] for body in bodies]
        non_blank = [index for index, text in enumerate(texts) if not is_blank(text, bodies[index], encoder)]
        return self._outputs(non_blank, sources, texts, batch_size, progress)

    def _hypotheses(
        self, sequences: Sequence[Sequence[int]], texts: Sequence[str], max_tokens: int | None, **options: Any
    ) -> list[list[list[int]]]:
        form, names = self._format, self._names
        prefix = [names["decoder"][token] for token in (form.start, form.target_beginning) if token is not None]
        # If decoding always starts with the same token, CTranslate2 adds it.
        prefix = prefix if self._exported.settings.start is None else prefix[1:]
        limits = [output_limit(text, self._ratio) for text in texts]
        max_length = int(max(limits)) + 1 if max_tokens is None else max_tokens
        results = self._engine.translate_batch(
            [[names["encoder"][token] for token in source] for source in sequences],
            target_prefix=[prefix] * len(sequences) if prefix else None,
            max_input_length=0,
            max_decoding_length=min(self._exported.max_positions - 1, max_length),
            min_decoding_length=0,
            return_end_token=True,
            callback=_stop_at_limits(limits, self._lengths) if self._beam == 1 else None,
            **self._search,
            **options,
        )
        return [[[self._ids[name] for name in tokens] for tokens in result.hypotheses] for result in results]


class ExportedContinuer(ExportedSearch):
    """Continues prompts with an exported decoder-only model; outputs are in the order of the prompts.

    max_tokens: the limit of an output in tokens; None for no limit. chat: treats each prompt as a user's turn, as in
    `Continuer`.
    """

    def __init__(
        self,
        exported: ExportedModel,
        languages: Languages | None,
        *,
        beam: int,
        max_length_ratio: float,
        max_tokens: int | None = None,
        chat: ChatTemplate | None = None,
        running: Any = None,
    ) -> None:
        super().__init__(exported, languages, beam=beam, max_length_ratio=max_length_ratio, running=running)
        limit = exported.max_positions
        self._prompts = Prompts(exported.decoder, self._format.start, limit, self._ratio, max_tokens, chat)
        self._ratio = self._prompts.ratio

    def __call__(
        self, prompts: Sequence[str], batch_size: int = DEFAULT_BATCH_SIZE, progress: ProgressCallback | None = None
    ) -> list[str]:
        """The continuation of each prompt."""
        prompt_ids, ends = self._prompts.ids(prompts), self._exported.ends
        written = self._outputs(range(len(prompts)), prompt_ids, prompts, batch_size, progress)
        return [self._prompts.output(*pair, ends) for pair in zip(prompt_ids, written, strict=True)]

    def _hypotheses(
        self, sequences: Sequence[Sequence[int]], texts: Sequence[str], max_tokens: int | None, **options: Any
    ) -> list[list[list[int]]]:
        room = self._exported.max_positions - max(map(len, sequences))
        limits = [limit for limit in (room, self._prompts.max_output_tokens, max_tokens) if limit is not None]
        callback = _stop_at_limits([output_limit(text, self._ratio) for text in texts], self._lengths)
        results = self._engine.generate_batch(
            [[self._names["decoder"][token] for token in ids] for ids in sequences],
            include_prompt_in_result=False,
            max_length=min(limits),
            return_end_token=True,
            callback=callback if self._beam == 1 else None,
            **self._search,
            **options,
        )
        return [[list(tokens) for tokens in result.sequences_ids] for result in results]


def engine(exported: ExportedModel, compute_type: str = "default") -> Any:
    """CTranslate2's translator or generator of the model, or encoder for a head, on the GPU if there is one.

    int8 models are computed in float32 on processors where int8 products are wrong. Raises UserError if CTranslate2 is
    not installed or cannot load the directory.
    """
    of_int8 = exported.settings.quantization.startswith("int8")
    if of_int8:
        choose_library()
    try:
        import ctranslate2
    except ImportError as error:
        hint = "pip install 'subgraft[ctranslate2]'"
        raise UserError("CTranslate2 is not installed", where=str(exported.directory), hint=hint) from error
    kind: Any = ctranslate2.Translator if "encoder" in exported.sides else ctranslate2.Generator
    if exported.head is not None:
        kind = ctranslate2.Encoder
    threads = torch.get_num_threads()
    if of_int8 and compute_type == "default" and not ctranslate2.get_cuda_device_count() and not exact_products():
        compute_type = "float32"
        say(_INEXACT.format(exported.directory), to=sys.stderr)
    try:
        return kind(str(exported.directory), device="auto", compute_type=compute_type, intra_threads=threads)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"CTranslate2 cannot load it: {error}", where=str(exported.directory)) from error


def _stop_at_limits(limits: Sequence[float], lengths: Sequence[int]) -> Callable[[Any], bool]:
    """A callback that stops greedy outputs of a batch near their limits in bytes.

    It may not be called for prefix tokens, so outputs are truncated exactly afterwards.
    """
    remaining = list(limits)

    def stop(step: Any) -> bool:
        remaining[step.batch_id] -= lengths[min(step.token_id, len(lengths) - 1)]
        return bool(remaining[step.batch_id] <= 0)

    return stop


def search_options(exported: ExportedModel) -> dict[str, Any]:
    """The model's own settings of a search, as CTranslate2's arguments."""
    settings = exported.settings
    options = {name: int(value) if value.is_integer() else value for name, value in settings.search.items()}
    return {**options, "suppress_sequences": settings.suppressed or None, "end_token": list(exported.ends)}


class FastSearch(BatchSearch):
    """A search with CTranslate2, followed by a search with transformers for the remaining sequences.

    search: the exported model with the same settings.

    Attributes:
        again: The number of sequences of the last call that transformers searched again; `seconds` excludes them.
        completes: Whether these sequences are searched again. Otherwise they are empty, as in measurements of speed.
    """

    def __init__(self, search: ExportedTranslator | ExportedContinuer, *model: Any, **settings: Any) -> None:
        super().__init__(*model, **settings)
        self._exported_search = search
        self.again = 0
        self.completes = True

    def _generate(self, sequences: Sequence[list[int]], texts: Sequence[str]) -> Tensor:
        outputs = self._exported_search.search_within_limit(sequences, texts)
        started = time.perf_counter()
        missing = [index for index, row in enumerate(outputs) if row is None]
        rows = [row or [] for row in outputs]
        if missing and self.completes:
            written = super()._generate([sequences[index] for index in missing], [texts[index] for index in missing])
            for index, row in zip(missing, written.tolist(), strict=True):
                rows[index] = row
        self.again += len(missing)
        self.seconds -= time.perf_counter() - started
        return self._padded(rows, self._padding)[0]

    def _begin(self) -> None:
        super()._begin()
        self.again = 0


class FastTranslator(FastSearch, Translator):
    """A `Translator` that searches with CTranslate2."""


class FastContinuer(FastSearch, Continuer):
    """A `Continuer` that searches with CTranslate2."""
