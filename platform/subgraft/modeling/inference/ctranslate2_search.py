"""Translating and continuing text with CTranslate2 and an exported model.

Outputs have the same special tokens and the same limit in bytes as those of `Translator` and `Continuer`. CTranslate2
does not support this limit, so it may search beyond it, and outputs are truncated afterwards.

`FastTranslator` and `FastContinuer` have the outputs of those: sentences with a hypothesis that does not end within the
limit are searched again by transformers. Greedy outputs are the same up to the limit, so all come from CTranslate2.
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
from subgraft.base.terminal_escaping import say
from subgraft.config.corpora import Languages
from subgraft.modeling.inference.continue_text import Continuer
from subgraft.modeling.inference.ctranslate2_directory import ExportedModel
from subgraft.modeling.inference.int8_products import choose_library, exact_products
from subgraft.modeling.inference.prompts import ChatTemplate, Prompts
from subgraft.modeling.inference.search import (
    AT_ONCE,
    BatchSearch,
    Progress,
    allowed,
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
# A search whose limit in bytes is applied afterwards is stopped as if tokens had this many bytes on average.
_BYTES_PER_TOKEN = 2


class ExportedSearch:
    """A search with an exported model.

    Args:
        exported: The exported model.
        languages: The languages; by default those of the export.
        beam: The beam size; 1 is greedy search.
        max_length_ratio: The limit of an output in bytes, per byte of its source or prompt.
        running: The `engine` of the model, if it is loaded already.

    Attributes:
        cut: The number of outputs of the last call without an end token.
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
        self.cut = 0

    @property
    def _counted(self) -> list[int]:
        """Tokens before an output that `LengthLimit` counts as a part of it."""
        return []

    def _outputs(
        self,
        indices: Sequence[int],
        sequences: Sequence[Sequence[int]],
        texts: Sequence[str],
        batch_size: int,
        progress: Progress | None,
    ) -> list[list[int]]:
        """The ids of each text's output, including its end token, if any; none for texts whose index is missing."""
        outputs: list[list[int]] = [[]] * len(texts)
        self.cut = 0
        for chosen in batches(indices, sequences, batch_size, progress):
            written = self._written([sequences[place] for place in chosen], [texts[place] for place in chosen])
            for place, tokens in zip(chosen, written, strict=True):
                outputs[place] = tokens
                self.cut += not self._exported.has_ended(tokens)
        return outputs

    def _written(self, sequences: Sequence[Sequence[int]], texts: Sequence[str]) -> list[list[int]]:
        hypotheses = self._hypotheses(sequences, texts, None)
        return [self._limited(each[0], text) for each, text in zip(hypotheses, texts, strict=True)]

    def settled(self, sequences: Sequence[Sequence[int]], texts: Sequence[str]) -> list[list[int] | None]:
        """Outputs of one batch, or None where the limit in bytes may change which one is best.

        It cannot if all hypotheses in the beam end within it. A search that is stopped too early costs time only.
        sequences: ids with the special tokens around them.
        """
        if self._beam == 1:
            return list(self._written(sequences, texts))
        longest = int(max(output_limit(text, self._ratio) for text in texts) / _BYTES_PER_TOKEN) + 1
        hypotheses = self._hypotheses(sequences, texts, longest, num_hypotheses=self._beam)
        return [
            each[0] if all(self._ended(tokens, text) for tokens in each) else None
            for each, text in zip(hypotheses, texts, strict=True)
        ]

    def _hypotheses(
        self, sequences: Sequence[Sequence[int]], texts: Sequence[str], max_tokens: int | None, **options: Any
    ) -> list[list[list[int]]]:
        """The ids of each sequence's hypotheses, best first."""
        raise NotImplementedError

    def _ended(self, tokens: list[int], text: str) -> bool:
        return self._exported.has_ended(tokens) and len(self._limited(tokens, text)) == len(tokens)

    def _limited(self, tokens: list[int], text: str) -> list[int]:
        """The output up to the limit."""
        return tokens[: allowed([*self._counted, *tokens], self._lengths, text, self._ratio) - len(self._counted)]


class ExportedTranslator(ExportedSearch):
    """Translates with an exported encoder-decoder, in the order of the input; a blank source has an empty output."""

    @property
    def _counted(self) -> list[int]:
        return [self._format.start]

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: token for token, name in enumerate(self._names["decoder"])}

    def __call__(self, texts: Sequence[str], batch_size: int = AT_ONCE, progress: Progress | None = None) -> list[str]:
        """Translations of `texts`, each one line."""
        decode = self._exported.decoder.decode
        return [" ".join(decode(tokens).splitlines()) for tokens in self.tokens(texts, batch_size, progress)]

    def tokens(
        self, texts: Sequence[str], batch_size: int = AT_ONCE, progress: Progress | None = None
    ) -> list[list[int]]:
        """The ids of each output, including labels at its beginning and its end token, if any."""
        form, encoder = self._format, self._exported.encoder
        limit = self._exported.max_positions - len(form.source_beginning) - len(form.source_ending)
        bodies = [tokens[:limit] for tokens in encoder.encode_batch(texts)]
        sources = [[*form.source_beginning, *body, *form.source_ending] for body in bodies]
        spoken = [place for place, text in enumerate(texts) if not is_blank(text, bodies[place], encoder)]
        return self._outputs(spoken, sources, texts, batch_size, progress)

    def _hypotheses(
        self, sequences: Sequence[Sequence[int]], texts: Sequence[str], max_tokens: int | None, **options: Any
    ) -> list[list[list[int]]]:
        form, names = self._format, self._names
        prefix = [names["decoder"][token] for token in (form.start, form.target_beginning) if token is not None]
        # Where decoding always starts with one token, CTranslate2 knows it and takes none.
        prefix = prefix if self._exported.settings.start is None else prefix[1:]
        limits = [output_limit(text, self._ratio) for text in texts]
        most = int(max(limits)) + 1 if max_tokens is None else max_tokens
        results = self._engine.translate_batch(
            [[names["encoder"][token] for token in source] for source in sequences],
            target_prefix=[prefix] * len(sequences) if prefix else None,
            max_input_length=0,
            max_decoding_length=min(self._exported.max_positions - 1, most),
            min_decoding_length=0,
            return_end_token=True,
            callback=_grown(limits, self._lengths) if self._beam == 1 else None,
            **self._search,
            **options,
        )
        return [[[self._ids[name] for name in tokens] for tokens in one.hypotheses] for one in results]


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
        self, prompts: Sequence[str], batch_size: int = AT_ONCE, progress: Progress | None = None
    ) -> list[str]:
        """The continuation of each prompt."""
        prompt_ids, ends = self._prompts.ids(prompts), self._exported.ends
        written = self._outputs(range(len(prompts)), prompt_ids, prompts, batch_size, progress)
        return [self._prompts.output(*pair, ends) for pair in zip(prompt_ids, written, strict=True)]

    def _hypotheses(
        self, sequences: Sequence[Sequence[int]], texts: Sequence[str], max_tokens: int | None, **options: Any
    ) -> list[list[list[int]]]:
        room = self._exported.max_positions - max(map(len, sequences))
        limits = [limit for limit in (room, self._prompts.most, max_tokens) if limit is not None]
        ends = _grown([output_limit(text, self._ratio) for text in texts], self._lengths)
        results = self._engine.generate_batch(
            [[self._names["decoder"][token] for token in ids] for ids in sequences],
            include_prompt_in_result=False,
            max_length=min(limits),
            return_end_token=True,
            callback=ends if self._beam == 1 else None,
            **self._search,
            **options,
        )
        return [[list(tokens) for tokens in one.sequences_ids] for one in results]


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


def _grown(limits: Sequence[float], lengths: Sequence[int]) -> Callable[[Any], bool]:
    """A callback that stops greedy outputs of a batch near their limits in bytes.

    It may not be called for prefix tokens, so outputs are truncated exactly afterwards.
    """
    left = list(limits)

    def ends(step: Any) -> bool:
        left[step.batch_id] -= lengths[min(step.token_id, len(lengths) - 1)]
        return bool(left[step.batch_id] <= 0)

    return ends


def search_options(exported: ExportedModel) -> dict[str, Any]:
    """The model's own settings of a search, as CTranslate2's arguments."""
    settings = exported.settings
    whole = {name: int(value) if value.is_integer() else value for name, value in settings.search.items()}
    return {**whole, "suppress_sequences": settings.suppressed or None, "end_token": list(exported.ends)}


class FastSearch(BatchSearch):
    """A search with CTranslate2, before one with transformers for what remains.

    search: the exported model with the same settings.

    Attributes:
        again: The number of sequences of the last call that transformers searched again; `seconds` excludes them.
        completes: Whether these sequences are searched again; otherwise they are empty, as in measurements of speed.
    """

    def __init__(self, search: ExportedTranslator | ExportedContinuer, *model: Any, **settings: Any) -> None:
        super().__init__(*model, **settings)
        self._search_by = search
        self.again = 0
        self.completes = True

    def _generate(self, sequences: Sequence[list[int]], texts: Sequence[str]) -> Tensor:
        outputs = self._search_by.settled(sequences, texts)
        started = time.perf_counter()
        missing = [place for place, row in enumerate(outputs) if row is None]
        rows = [row or [] for row in outputs]
        if missing and self.completes:
            written = super()._generate([sequences[place] for place in missing], [texts[place] for place in missing])
            for place, row in zip(missing, written.tolist(), strict=True):
                rows[place] = row
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
