"""Simulated tokens compared with real new ones: kinds, lengths, subwords, hyperwords and relations.

English to French, the vocabulary of one domain against that of another (8,000 unigram subwords that can spell
everything), and sentences of the first. Needs SUBGRAFT_DATA.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from measurements import Measurements, measurements, options, real_text
from subgraft.config.initialisers import ResegmentationSettings
from subgraft.data.text.reading import lines
from subgraft.embeddings.generators.generator import RaggedSimilar
from subgraft.embeddings.generators.resegment import SimulatedToken
from subgraft.embeddings.generators.simulation import SimilarCache, resegmenter
from subgraft.subwords.similar_tokens.finder import Relation
from subgraft.subwords.vocabulary.alignment import align
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

MAX_SIMILAR = 10
WAYS = {
    "merged and split": ResegmentationSettings(),
    "matched": ResegmentationSettings(match="downstream"),
}
QUICK = 1000  # sentences


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--upstream", default="tatoeba", help="domain of the upstream vocabulary")
    parser.add_argument("--downstream", default="itdocs", help="domain of the task's vocabulary")
    parser.add_argument("--sentences", type=int, default=5000, help="upstream sentences to simulate tokens in")
    parser.add_argument("--size", type=int, default=8000, help="subwords of either vocabulary")
    arguments = parser.parse_args()
    source, target = (_vocabulary(domain, arguments.size) for domain in (arguments.upstream, arguments.downstream))
    unseen = [entry for token in align(source, target).unseen if (entry := target.entries[token]) is not None]
    similar = SimilarCache(source, MAX_SIMILAR)
    sentences = min(QUICK, arguments.sentences) if arguments.quick else arguments.sentences
    text = list(itertools.islice(_text(arguments.upstream), sentences))
    with measurements(__doc__, arguments) as table:
        _add(table, "real", source, [SimulatedToken(entry) for entry in unseen], similar)
        for name, settings in WAYS.items():
            _add(table, name, source, list(_simulated(source, target, settings, text)), similar)


def _vocabulary(domain: str, size: int) -> Tokenizer:
    return learn(_text(domain), kind="unigram", size=size, character_coverage=1.0, byte_fallback=True)


def _text(domain: str) -> Iterator[str]:
    return lines(real_text() / "en-fr" / domain / "train.fr.gz")


def _simulated(
    source: Tokenizer, target: Tokenizer, settings: ResegmentationSettings, text: Sequence[str]
) -> Iterator[SimulatedToken]:
    """Every simulated token of the sentences, as often as it was drawn."""
    resegment = resegmenter(source, settings, MAX_SIMILAR, target)
    for index, tokens in enumerate(source.encode_batch(text)):
        result = resegment(tokens, np.random.default_rng([1, index]))
        yield from (result.new[token - len(source)] for token in result.tokens if token >= len(source))


def _add(
    table: Measurements, name: str, source: Tokenizer, tokens: Sequence[SimulatedToken], cache: SimilarCache
) -> None:
    similar = cache(tokens)
    kinds = np.bincount(similar.relations.numpy(), minlength=len(Relation))
    table.add(
        name,
        tokens=len(tokens),
        initial=float(np.mean([token.entry.word_initial for token in tokens])),
        characters=float(np.mean([len(token.entry.surface) for token in tokens])),
        subwords=_mean_count(similar, range(Relation.PREFIX_HYPERWORD)),
        hyperwords=_mean_count(similar, range(Relation.PREFIX_HYPERWORD, len(Relation))),
        known=float(np.mean([token.entry in source.ids for token in tokens])),
        **{relation.name.lower(): float(kinds[relation] / kinds.sum()) for relation in Relation},
    )


def _mean_count(similar: RaggedSimilar, relations: range) -> float:
    """Similar tokens of these relations that a new token has."""
    chosen = (similar.relations >= relations.start) & (similar.relations < relations.stop)
    return float(chosen.sum()) / len(similar)


if __name__ == "__main__":
    main()
