"""The upstream objective of a model: pretraining and generator training draw their examples from the same one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from subgraft.config.base import UpstreamObjective
from subgraft.config.corpora import Languages
from subgraft.config.domains import MaskingSettings, NoiseSettings
from subgraft.config.training import TrainingSettings
from subgraft.config.vocabularies import SamplingSettings
from subgraft.models.bundle import Bundle
from subgraft.models.sequence_format import language_code
from subgraft.objectives.denoising import Denoising
from subgraft.objectives.masked import MaskedSentences
from subgraft.objectives.mixture import Mixture
from subgraft.objectives.sampled import Sampling
from subgraft.objectives.seq2seq import Objective
from subgraft.objectives.translation import Translation
from subgraft.text.corpus import Corpus
from subgraft.text.segments import Text


def upstream_objective(
    name: UpstreamObjective,
    bundle: Bundle,
    corpus: Corpus,
    languages: Languages,
    noise: NoiseSettings | None,
    training: TrainingSettings,
    seed: int,
    sampling: SamplingSettings | None = None,
) -> Objective:
    """Training examples of the corpus for an encoder-decoder: its pairs, or the lines of each language to denoise."""
    sampled = None if sampling is None else Sampling(sampling, seed)
    if name == "translation":
        form = bundle.sequence_format(languages)
        pairs = corpus.text_pairs("train")
        return Translation(
            pairs, bundle.encoder, bundle.decoder, form, training.max_length, training.batch_unit, sampled
        )
    assert noise is not None  # the experiment gives it for this objective
    code, limit = partial(language_code, bundle.decoder), training.max_length
    return Mixture(
        [
            Denoising(lines, bundle.decoder, code(language), noise, limit, seed, sampled)
            for language, lines in _texts(corpus, languages)
        ]
    )


def masked_sentences(
    bundle: Bundle,
    corpus: Corpus,
    languages: Languages,
    masking: MaskingSettings,
    training: TrainingSettings,
    seed: int,
) -> MaskedSentences:
    """The text of each language of the corpus, for a masked language model."""
    texts = [lines for _, lines in _texts(corpus, languages)]
    documents = [text for lines in texts for text in _documents(lines, masking.sentences_per_document)]
    return MaskedSentences(documents, bundle.encoder, masking, training.max_length, seed)


def _documents(lines: Sequence[str], size: int) -> Iterator[str]:
    """By turns `size` lines one by one, and `size` lines as one."""
    for at in range(0, len(lines), size):
        together = list(lines[at : at + size])
        if (at // size) % 2:
            yield " ".join(together)
        else:
            yield from together


def _texts(corpus: Corpus, languages: Languages) -> Iterator[tuple[str, Text]]:
    """Each language of the corpus, with its training lines."""
    yield languages.source, corpus.text("train", "source")
    if not corpus.monolingual:
        yield languages.target, corpus.text("train", "target")
