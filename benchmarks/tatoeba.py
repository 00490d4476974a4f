"""What the benchmarks of training share: a model of the `small` preset, and examples of English to French tatoeba."""

from __future__ import annotations

import itertools

from measurements import real_text
from subgraft.config.corpora import Languages
from subgraft.config.experiment.presets import preset
from subgraft.config.models import MarianSettings
from subgraft.data.text.reading import lines
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_named
from subgraft.subwords.vocabulary.learn import learn
from subgraft.training.objectives.compute.translation import Translation

LANGUAGES = Languages(source="en", target="fr")
MAX_LENGTH = 512


def small_model(sentences: int) -> tuple[Bundle, Translation]:
    """An untrained model with vocabularies of 6,000 and 8,000 subwords, and that many sentence pairs as examples.

    Without real text the benchmark is left out.
    """
    corpus = real_text() / "en-fr" / "tatoeba"
    whole = zip(lines(corpus / "train.en.gz"), lines(corpus / "train.fr.gz"), strict=True)
    pairs = list(itertools.islice(whole, sentences))
    source = learn((pair[0] for pair in pairs), kind="unigram", size=6000)
    target = learn((pair[1] for pair in pairs), kind="unigram", size=8000)
    sizes = {name: size for name, size in preset("small")["model"].items() if name in MarianSettings.model_fields}
    model = family_named("marian").build(MarianSettings(**sizes), source, target, seed=1)
    bundle = Bundle(model, source, target)
    return bundle, Translation(pairs, source, target, bundle.sequence_format(LANGUAGES), MAX_LENGTH)
