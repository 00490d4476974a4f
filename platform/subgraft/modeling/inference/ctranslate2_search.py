"""Translating and continuing text with CTranslate2 and an exported model.

Outputs have the same special tokens and the same limit in bytes as those of `Translator` and `Continuer`. CTranslate2
does not support this limit, so it may search beyond it, and outputs are truncated afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch

from subgraft.base.errors import UserError
from subgraft.base.terminal_escaping import say
from subgraft.config.corpora import Languages
from subgraft.modeling.inference.ctranslate2_directory import ExportedModel
from subgraft.modeling.inference.int8_products import choose_library, exact_products
from subgraft.modeling.inference.prompts import ChatTemplate, Prompts
from subgraft.modeling.inference.search import allowed, is_blank, output_limit, piece_bytes

Progress = Callable[[int, int, str], None]
_INEXACT = (
    "{}: on this processor CTranslate2's products of int8 are wrong, so this model is computed in float32: the same "
    "outputs, more slowly. Set CT2_USE_MKL=1 before the process starts for those of MKL."
)
# A search whose limit in bytes is applied afterwards is stopped as if tokens had this many bytes on average.
_BYTES_PER_TOKEN = 2


class ExportedTranslator:
    """Translates with an exported encoder-decoder; the output is in the order of the input, empty for a blank source.

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
        """Set up the search.

        Args:
            exported: The exported model.
            languages: The languages; by default those of the export.
            beam: The beam size; 1 is greedy search.
            max_length_ratio: The limit of an output in bytes, per byte of its source.
            running: The `engine` of the model, if it is loaded already.
        """
        self._exported = exported
        self._format = exported.sequence_format(languages)
        self._beam = beam
        self._search = {"beam_size": beam, **_options(exported)}
        self._ratio = max_length_ratio
        self._names = exported.vocabularies()
        self._ids = {name: token for token, name in enumerate(self._names["decoder"])}
        self._lengths = piece_bytes(exported.decoder).tolist()
        self._engine: Any = engine(exported) if running is None else running
        self.cut = 0

    def __call__(self, texts: Sequence[str], batch_size: int = 32, progress: Progress | None = None) -> list[str]:
        """Translations of `texts`, each one line."""
        return [
            " ".join(self._exported.decoder.decode(tokens).splitlines())
            for tokens in self.tokens(texts, batch_size, progress)
        ]

    def tokens(
        self, texts: Sequence[str], batch_size: int = 32, progress: Progress | None = None
    ) -> list[tuple[int, ...]]:
        """The ids of each output, including labels at its beginning and its end token, if any."""
        form, limit = self._format, self._exported.max_positions
        around = len(form.source_beginning) + len(form.source_ending)
        bodies = [tokens[: limit - around] for tokens in self._exported.encoder.encode_batch(texts)]
        sources = [[*form.source_beginning, *body, *form.source_ending] for body in bodies]
        encoder = self._exported.encoder
        spoken = [place for place, text in enumerate(texts) if not is_blank(text, bodies[place], encoder)]
        outputs: list[tuple[int, ...]] = [()] * len(texts)
        self.cut = 0
        for batch in batches([sources[place] for place in spoken], batch_size, progress):
            chosen = [spoken[number] for number in batch]
            written = self._written([sources[place] for place in chosen], [texts[place] for place in chosen])
            for place, tokens in zip(chosen, written, strict=True):
                outputs[place] = tokens
                self.cut += not self._exported.has_ended(tokens)
        return outputs

    def _written(self, sources: Sequence[Sequence[int]], texts: Sequence[str]) -> list[tuple[int, ...]]:
        longest = int(max(output_limit(text, self._ratio) for text in texts))
        hypotheses = self._hypotheses(sources, texts, max_tokens=longest + 1)
        return [self._limited(each[0], text) for each, text in zip(hypotheses, texts, strict=True)]

    def settled(self, sources: Sequence[Sequence[int]], texts: Sequence[str]) -> list[tuple[int, ...] | None]:
        """Outputs of one batch, or None where the limit in bytes may have a part in what is the best one.

        It has none where all hypotheses that the search keeps have ended within it. Nothing but time is lost by a
        search that is broken off too early. sources: ids with the special tokens around them.
        """
        if self._beam == 1:
            return list(self._written(sources, texts))
        longest = int(max(output_limit(text, self._ratio) for text in texts) / _BYTES_PER_TOKEN) + 1
        hypotheses = self._hypotheses(sources, texts, max_tokens=longest, num_hypotheses=self._beam)
        return [
            tuple(each[0]) if all(self._ended(tokens, text) for tokens in each) else None
            for each, text in zip(hypotheses, texts, strict=True)
        ]

    def _hypotheses(
        self, sources: Sequence[Sequence[int]], texts: Sequence[str], max_tokens: int, **options: Any
    ) -> list[list[list[int]]]:
        """The ids of each source's hypotheses, best first."""
        form, names = self._format, self._names
        prefix = [names["decoder"][token] for token in (form.start, form.target_beginning) if token is not None]
        # Where decoding always starts with one token, CTranslate2 knows it and takes none.
        prefix = prefix if self._exported.settings.start is None else prefix[1:]
        ends = _grown([output_limit(text, self._ratio) for text in texts], self._lengths)
        results = self._engine.translate_batch(
            [[names["encoder"][token] for token in source] for source in sources],
            target_prefix=[prefix] * len(sources) if prefix else None,
            max_input_length=0,
            max_decoding_length=min(self._exported.max_positions - 1, max_tokens),
            min_decoding_length=0,
            return_end_token=True,
            callback=ends if self._beam == 1 else None,
            **self._search,
            **options,
        )
        return [[[self._ids[name] for name in tokens] for tokens in one.hypotheses] for one in results]

    def _ended(self, tokens: list[int], text: str) -> bool:
        return self._exported.has_ended(tokens) and len(self._limited(tokens, text)) == len(tokens)

    def _limited(self, tokens: list[int], text: str) -> tuple[int, ...]:
        """The output up to the limit; as in `LengthLimit`, the decoder's start counts as part of the output."""
        return tuple(tokens[: allowed([self._format.start, *tokens], self._lengths, text, self._ratio) - 1])


class ExportedContinuer:
    """Continues prompts with an exported decoder-only model; outputs are in the order of the prompts.

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
        max_tokens: int | None = None,
        chat: ChatTemplate | None = None,
        running: Any = None,
    ) -> None:
        """Set up the search.

        Args:
            exported: The exported model.
            languages: The languages; by default those of the export.
            beam: The beam size; 1 is greedy search.
            max_length_ratio: The limit of an output in bytes, per byte of its prompt.
            max_tokens: The limit of an output in tokens; None for no limit.
            chat: Treats each prompt as a user's turn, as in `Continuer`.
            running: The `engine` of the model, if it is loaded already.
        """
        self._exported = exported
        self._beam = beam
        start, limit = exported.sequence_format(languages).start, exported.max_positions
        self._prompts = Prompts(exported.decoder, start, limit, max_length_ratio, max_tokens, chat)
        self._search = {"beam_size": beam, **_options(exported)}
        self._ratio = self._prompts.ratio
        self._names = exported.vocabularies()["decoder"]
        self._lengths = piece_bytes(exported.decoder).tolist()
        self._engine: Any = engine(exported) if running is None else running
        self.cut = 0

    def __call__(self, prompts: Sequence[str], batch_size: int = 32, progress: Progress | None = None) -> list[str]:
        """The continuation of each prompt."""
        prompt_ids, ends = self._prompts.ids(prompts), self._exported.ends
        written = self.tokens(prompt_ids, prompts, batch_size, progress)
        return [self._prompts.output(*pair, ends) for pair in zip(prompt_ids, written, strict=True)]

    def tokens(
        self,
        prompt_ids: Sequence[Sequence[int]],
        prompts: Sequence[str],
        batch_size: int = 32,
        progress: Progress | None = None,
    ) -> list[list[int]]:
        """The ids after each prompt, including the end token, if any. prompt_ids: ids of the prompts."""
        outputs: list[list[int]] = [[]] * len(prompts)
        self.cut = 0
        for chosen in batches(prompt_ids, batch_size, progress):
            texts = [prompts[place] for place in chosen]
            hypotheses = self._hypotheses([prompt_ids[place] for place in chosen], texts, None)
            for place, each in zip(chosen, hypotheses, strict=True):
                outputs[place] = self._limited(each[0], prompts[place])
                self.cut += not self._exported.has_ended(outputs[place])
        return outputs

    def settled(self, prompt_ids: Sequence[Sequence[int]], prompts: Sequence[str]) -> list[list[int] | None]:
        """Outputs of one batch, as `ExportedTranslator.settled`."""
        if self._beam == 1:
            hypotheses = self._hypotheses(prompt_ids, prompts, None)
            return [self._limited(each[0], prompt) for each, prompt in zip(hypotheses, prompts, strict=True)]
        longest = max(output_limit(prompt, self._ratio) for prompt in prompts)
        hypotheses = self._hypotheses(
            prompt_ids, prompts, int(longest / _BYTES_PER_TOKEN) + 1, num_hypotheses=self._beam
        )
        return [
            each[0] if all(self._ended(tokens, prompt) for tokens in each) else None
            for each, prompt in zip(hypotheses, prompts, strict=True)
        ]

    def _hypotheses(
        self, prompt_ids: Sequence[Sequence[int]], prompts: Sequence[str], max_tokens: int | None, **options: Any
    ) -> list[list[list[int]]]:
        """The ids of each prompt's hypotheses, best first."""
        room = self._exported.max_positions - max(map(len, prompt_ids))
        limits = [limit for limit in (room, self._prompts.most, max_tokens) if limit is not None]
        ends = _grown([output_limit(prompt, self._ratio) for prompt in prompts], self._lengths)
        results = self._engine.generate_batch(
            [[self._names[token] for token in ids] for ids in prompt_ids],
            include_prompt_in_result=False,
            max_length=min(limits),
            return_end_token=True,
            callback=ends if self._beam == 1 else None,
            **self._search,
            **options,
        )
        return [[list(tokens) for tokens in one.sequences_ids] for one in results]

    def _ended(self, tokens: list[int], prompt: str) -> bool:
        return self._exported.has_ended(tokens) and len(self._limited(tokens, prompt)) == len(tokens)

    def _limited(self, tokens: list[int], prompt: str) -> list[int]:
        return tokens[: allowed(tokens, self._lengths, prompt, self._ratio)]


def engine(exported: ExportedModel, compute_type: str = "default") -> Any:
    """CTranslate2's translator or generator of the model, on the GPU if there is one.

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
    kind = ctranslate2.Translator if "encoder" in exported.sides else ctranslate2.Generator
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


def batches(sequences: Sequence[Sequence[int]], size: int, progress: Progress | None) -> Iterator[list[int]]:
    """Batches of indices of sequences by descending length."""
    order = sorted(range(len(sequences)), key=lambda place: -len(sequences[place]))
    for begin, end in pairwise([*range(0, len(order), size), len(order)]):
        yield order[begin:end]
        if progress is not None:
            progress(end, len(order), "sentences")


def _options(exported: ExportedModel) -> dict[str, Any]:
    settings = exported.settings
    whole = {name: int(value) if value.is_integer() else value for name, value in settings.search.items()}
    return {**whole, "suppress_sequences": settings.suppressed or None, "end_token": list(exported.ends)}
