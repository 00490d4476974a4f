"""Blocks of consecutive sentences, from which denoising and masked sequence-to-sequence pretraining make examples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from subgraft.config.corpora import Languages
from subgraft.data.text.documents import document_blocks
from subgraft.data.text.encoded import encode
from subgraft.data.text.noise import joined
from subgraft.modeling.families import SequenceFormat, family_of
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.interface import Concatenation, E, Examples, ObjectiveInputs
from subgraft.training.objectives.compute.subword_regularization import Sampling, Subwords


class AfterSpaceEncoder:
    """Segments texts as a vocabulary segments them after a space."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    @property
    def digest(self) -> str:
        return self._tokenizer.digest

    @property
    def fingerprint(self) -> str:
        return f"{self._tokenizer.fingerprint} after a space"

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return self._tokenizer.encode_batch([f" {text}" for text in texts])


class Blocks:
    """The text of one language in blocks, each of as many consecutive sentences of a document as fit into `limit`.

    With `sampling`, text is segmented again in every epoch, with the decoder's settings. Blocks leave room for the
    average growth, and a sentence whose sample does not fit keeps its plain segmentation. Lengths are those of the
    plain segmentation.

    Args:
        lines: The sentences.
        tokenizer: The vocabulary.
        form: The special tokens around a block, which count towards the limit.
        separator: The tokens between two sentences of a block.
        limit: The maximum number of tokens of a block; a longer sentence is truncated.
        starts: The first sentence of each document, and the end of the last [D + 1]; by default there is one document.
        sampling: Samples segmentations; None for the plain one.
        language: The language of the text.

    Attributes:
        truncated: The number of truncated sentences.
    """

    def __init__(
        self,
        lines: Sequence[str],
        tokenizer: Tokenizer,
        form: SequenceFormat,
        separator: Sequence[int],
        limit: int,
        *,
        starts: np.ndarray | None = None,
        sampling: Sampling | None = None,
        language: str = "",
    ) -> None:
        self.language = language
        self.tokenizer, self.form, self.separator = tokenizer, form, tuple(separator)
        self._limit = limit
        separator_size, longest = len(self.separator), limit - form.around
        self._sentences = encode(lines, tokenizer).sequences.truncate(longest)
        self.truncated = int((~self._sentences.whole).sum())
        # Within a block a sentence follows a space, which byte-level vocabularies include in its first token.
        self._later = self._sentences
        if not separator and tokenizer.encode(" a") != tokenizer.encode("a"):
            self._later = encode(lines, AfterSpaceEncoder(tokenizer)).sequences.truncate(longest)
        self._subwords = Subwords(self._later)
        if sampling is not None:
            self._subwords = sampling.of("decoder", lines, tokenizer, self._sentences, longest)
        first, later = self._sentences.lengths, self._later.lengths
        costs = np.minimum(np.ceil(np.maximum(first, later) * self._subwords.growth), longest) + separator_size
        if starts is None:
            starts = np.array([0, len(costs)])
        self._bounds = document_blocks(costs, starts, longest + separator_size)
        first_sentences = self._bounds[:-1]
        ends = np.concatenate([[0], np.cumsum(later + separator_size, dtype=np.int64)])[self._bounds]
        self.lengths: np.ndarray = np.diff(ends) - separator_size + form.around + (first - later)[first_sentences]

    def __len__(self) -> int:
        return len(self.lengths)

    def example(self, index: int, epoch: int) -> list[int]:
        """The tokens of a block, without the special tokens around it."""
        return joined(self.sentences(index, epoch), self.separator)

    def sentences(self, index: int, epoch: int) -> list[list[int]]:
        """The sentences of a block, each in the sampled segmentation of the epoch if it fits, else in the plain one."""
        free_tokens = self._limit - int(self.lengths[index])
        begin, end = self._bounds[index : index + 2].tolist()
        if self._later is not self._sentences:
            return [self._sentences[begin], *(self._later[i] for i in range(begin + 1, end))]
        sentences: list[list[int]] = []
        for i in range(begin, end):
            plain, tokens = self._sentences[i], self._subwords.at(i, epoch)
            if len(tokens) - len(plain) > free_tokens:
                tokens = plain
            free_tokens -= len(tokens) - len(plain)
            sentences.append(tokens)
        return sentences


def concatenate_blocks(request: ObjectiveInputs, parts: Sequence[tuple[Blocks, Examples[E]]]) -> Concatenation[E]:
    """The examples of the blocks of all languages. An epoch has those that the request draws."""
    sizes = [(blocks.language, len(blocks)) for blocks, _ in parts]
    return Concatenation([examples for _, examples in parts], request.draws(sizes))


def blocks_of(request: ObjectiveInputs, block_tokens: int | None) -> list[Blocks]:
    """The blocks of each language of a corpus, in the decoder's vocabulary. Blocks do not cross document boundaries."""
    bundle, limit = request.bundle, request.training.max_length
    family, config, tokenizer = family_of(bundle.model), bundle.model.config.to_dict(), bundle.decoder
    blocks = []
    for text in request.texts_by_document():
        languages = Languages(source=text.language, target=text.language)
        blocks.append(
            Blocks(
                text.lines,
                tokenizer,
                family.sequence_format(config, tokenizer, tokenizer, languages),
                family.sentence_separator(tokenizer),
                min(block_tokens or limit, limit),
                starts=text.starts,
                sampling=None if request.sampling is None else Sampling(request.sampling, request.seed),
                language=text.language,
            )
        )
    return blocks
