"""What simulated tokens are like beside the real new ones: kinds, lengths, subwords, hyperwords and relations.

English to French, the vocabulary of one domain against that of another (8,000 unigram subwords that can spell
everything), and sentences of the first. Needs SUBGRAFT_DATA.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from subgraft.config.initialisers import ResegmentationSettings
from subgraft.errors import UserError
from subgraft.generators.generator import RaggedSimilar
from subgraft.generators.resegment import SimulatedToken
from subgraft.generators.similar_cache import SimilarCache
from subgraft.generators.simulation import resegmenter
from subgraft.similar_tokens.finder import Relation
from subgraft.sources.places import data_folder
from subgraft.text.reading import lines
from subgraft.vocabulary.alignment import align
from subgraft.vocabulary.learn import learn
from subgraft.vocabulary.tokenizer import Tokenizer

MAX_SIMILAR = 10
WAYS = {
    "merged and split": ResegmentationSettings(),
    "matched": ResegmentationSettings(match="downstream"),
}
COLUMNS = ("tokens", "initial", "characters", "subwords", "hyperwords", "known")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upstream", default="tatoeba", help="domain of the upstream vocabulary")
    parser.add_argument("--downstream", default="itdocs", help="domain of the task's vocabulary")
    parser.add_argument("--sentences", type=int, default=5000, help="upstream sentences to simulate tokens in")
    parser.add_argument("--size", type=int, default=8000, help="subwords of either vocabulary")
    arguments = parser.parse_args()
    source, target = (_vocabulary(domain, arguments.size) for domain in (arguments.upstream, arguments.downstream))
    unseen = [entry for token in align(source, target).unseen if (entry := target.entries[token]) is not None]
    similar = SimilarCache(source, MAX_SIMILAR)
    relations = [relation.name.lower().replace("_", " ") for relation in Relation]
    print("  ".join([f"{'':16}", *(f"{name:>10}" for name in COLUMNS), *(f"{name:>16}" for name in relations)]))
    _print_row("real", source, [SimulatedToken(entry) for entry in unseen], similar)
    text = list(itertools.islice(_text(arguments.upstream), arguments.sentences))
    for name, settings in WAYS.items():
        _print_row(name, source, list(_simulated(source, target, settings, text)), similar)


def _vocabulary(domain: str, size: int) -> Tokenizer:
    return learn(_text(domain), kind="unigram", size=size, character_coverage=1.0, byte_fallback=True)


def _text(domain: str) -> Iterator[str]:
    folder = data_folder()
    if folder is None:
        raise UserError("needs real text", hint=f"Set SUBGRAFT_DATA to a folder that holds en-fr/{domain}.")
    return lines(Path(folder) / "en-fr" / domain / "train.fr.gz")


def _simulated(
    source: Tokenizer, target: Tokenizer, settings: ResegmentationSettings, text: Sequence[str]
) -> Iterator[SimulatedToken]:
    """Every simulated token of the sentences, as often as it was drawn."""
    resegment = resegmenter(source, settings, MAX_SIMILAR, target)
    for index, tokens in enumerate(source.encode_batch(text)):
        result = resegment(tokens, np.random.default_rng([1, index]))
        yield from (result.new[token - len(source)] for token in result.tokens if token >= len(source))


def _print_row(name: str, source: Tokenizer, tokens: Sequence[SimulatedToken], cache: SimilarCache) -> None:
    similar = cache(tokens)
    kinds = np.bincount(similar.relations.numpy(), minlength=len(Relation))
    numbers = {
        "tokens": f"{len(tokens):,}",
        "initial": f"{np.mean([token.entry.word_initial for token in tokens]):.1%}",
        "characters": f"{np.mean([len(token.entry.surface) for token in tokens]):.2f}",
        "subwords": f"{_mean_count(similar, range(Relation.PREFIX_HYPERWORD)):.2f}",
        "hyperwords": f"{_mean_count(similar, range(Relation.PREFIX_HYPERWORD, len(Relation))):.2f}",
        "known": f"{np.mean([token.entry in source.ids for token in tokens]):.1%}",
    }
    shares = [f"{count / kinds.sum():16.1%}" for count in kinds]
    print("  ".join([f"{name:16}", *(f"{numbers[column]:>10}" for column in COLUMNS), *shares]))


def _mean_count(similar: RaggedSimilar, relations: range) -> float:
    """Similar tokens of these relations that a new token has."""
    chosen = (similar.relations >= relations.start) & (similar.relations < relations.stop)
    return float(chosen.sum()) / len(similar)


if __name__ == "__main__":
    main()
