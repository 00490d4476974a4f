"""Lines of a domain's text, each from its noised self, as a finetuning learns them beside pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from subgraft.config.settings_base import SideName
from subgraft.config.corpora import Languages
from subgraft.config.objectives import DenoisingSettings
from subgraft.config.training import FinetuneSettings
from subgraft.training.objectives.objective import Request
from subgraft.training.objectives.seq2seq import Example, Seq2SeqData
from subgraft.data.text.encoded import encode
from subgraft.data.text.noise import infill
from subgraft.subwords.vocabulary.words import WordBoundaries

_FIELD = "target"


class _Noised:
    """Examples: a line as the decoder's vocabulary cuts it, from the same line as the encoder's does, infilled.

    Pretraining joins lines into blocks. Here each line is an example of its own, so that examples are the same for
    every vocabulary; noise is a function of (seed, epoch, index).
    """

    def __init__(self, settings: DenoisingSettings, request: Request, training: FinetuneSettings) -> None:
        bundle, language = request.bundle, request.languages.target
        self.lines = request.corpus.text("train", _FIELD)
        self._form = bundle.sequence_format(Languages(source=language, target=language))
        room = training.max_length - self._form.around
        read, written = encode(self.lines, bundle.encoder), encode(self.lines, bundle.decoder)
        self.cut = int((read.sequences.longer(written.sequences) > room).sum())
        self._read, self._written = read.sequences.cut(room), written.sequences.cut(room)
        self._boundaries, self._mask = WordBoundaries.of(bundle.encoder), bundle.encoder.special["mask"]
        self._settings, self._seed = settings, request.seed
        in_tokens = self._read.longer(self._written) + 1
        in_characters: np.ndarray = written.characters.astype(np.int64) + 1
        self._lengths: np.ndarray = in_characters if training.batch_unit == "characters" else in_tokens

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def lengths(self) -> np.ndarray:
        return self._lengths

    def example(self, index: int, epoch: int) -> Example:
        words = self._boundaries.words(self._read[index])
        noised = infill(words, self._mask, self._settings, np.random.default_rng([self._seed, epoch, index]))
        return Example.of(noised, self._written[index], self._form)


class DenoisedLines(Seq2SeqData):
    """Target text without sources (see `TrainedText`)."""

    def __init__(self, settings: DenoisingSettings, request: Request, training: FinetuneSettings) -> None:
        examples = _Noised(settings, request, training)
        super().__init__(examples, *request.bundle.padding)
        self.cut = examples.cut
        self.texts: Mapping[SideName, Iterable[str]] = {"encoder": examples.lines, "decoder": examples.lines}
