"""Similar tokens of 13,000 new tokens in a vocabulary of 250,000: ours, substring inversion, and a scan per token.

Both vocabularies are learnt from real text (SUBGRAFT_DATA, or ../shared/data next to the repository) and kept
in --cache.
The two baselines find the hyperwords only; ours also segments, ranks, cuts and lays out the ragged arrays.
"""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from measurements import Measurements, measurements, options, real_text
from subgraft.data.text import reading
from subgraft.subwords.similar_tokens.finder import Relation, SimilarTokenFinder, SimilarTokens
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

T = TypeVar("T")
BEGINNING = "\0"  # spells a word's beginning, so that word-initial tokens are found there and nowhere else
UPSTREAM_TEXT = ("mono/*/*.gz",)
DOWNSTREAM_TEXT = ("en-fr/laws/train.*.gz", "en-fr/itdocs/train.*.gz", "en-zh/itdocs/train.*.gz")
UPSTREAM_SIZE, UPSTREAM_LINES = 250_000, 400_000
DOWNSTREAM_SIZE, DOWNSTREAM_LINES = 32_000, 150_000
QUICK = 10
NEW_TOKENS, SAMPLED_TOKENS, SMALL_BATCH = 13_000, 130, 500


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--cache", type=Path, help="folder to keep the vocabularies in (default: a temporary one)")
    parser.add_argument("--full", action="store_true", help="scan for every token, not for a sample (minutes)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.cache or Path(temporary)
        part = QUICK if arguments.quick else 1
        upstream = _vocabulary(folder / "upstream", UPSTREAM_TEXT, UPSTREAM_SIZE // part, UPSTREAM_LINES // part)
        downstream = _vocabulary(
            folder / "downstream", DOWNSTREAM_TEXT, DOWNSTREAM_SIZE // part, DOWNSTREAM_LINES // part
        )
    tokens = [entry for entry in downstream.ids if entry not in upstream.ids][:NEW_TOKENS]
    print(f"{len(tokens):,} new tokens against {len(upstream.ids):,} entries of {len(upstream):,}")
    with measurements(__doc__, arguments) as table:
        _measure(upstream, tokens, len(tokens) if arguments.full else SAMPLED_TOKENS, table)


def _vocabulary(directory: Path, patterns: Sequence[str], size: int, lines: int) -> Tokenizer:
    """Learnt in a process of its own, so that its memory does not count in ours."""
    if not (directory / "tokenizer.json").is_file():
        print(f"learning {size:,} unigram pieces into {directory}", flush=True)
        learner = multiprocessing.get_context("spawn").Process(target=_learn, args=(directory, patterns, size, lines))
        learner.start()
        learner.join()
        if learner.exitcode:
            raise SystemExit(learner.exitcode)
    return Tokenizer.load(directory)


def _learn(directory: Path, patterns: Sequence[str], size: int, lines: int) -> None:
    learn(_text(patterns), kind="unigram", size=size, character_coverage=0.9999, max_lines=lines).save(directory)


def _text(patterns: Sequence[str]) -> Iterator[str]:
    corpora = real_text()
    paths = sorted(path for pattern in patterns for path in corpora.glob(pattern))
    if not paths:
        raise SystemExit(f"no corpora in {corpora}: set SUBGRAFT_DATA to their folder")
    for path in paths:
        yield from reading.lines(path)


def _measure(upstream: Tokenizer, tokens: Sequence[Entry], scanned: int, table: Measurements) -> None:
    finder, building = _timed(lambda: SimilarTokenFinder(upstream))
    similar, finding = _timed(lambda: finder.find(tokens))
    _, small = _timed(lambda: finder.find(tokens[:: len(tokens) // SMALL_BATCH][:SMALL_BATCH]))
    peak = _peak_gibibytes()
    inverted, inverting = _timed(lambda: _invert(tokens, upstream.ids))
    sample = range(0, len(tokens), len(tokens) // scanned)[:scanned]
    scans, scanning = _timed(lambda: _scan([tokens[i] for i in sample], upstream.ids))
    scanning *= len(tokens) / scanned
    assert scans == [inverted[i] for i in sample]
    _check(upstream, similar, inverted, finder.max_similar)
    ours = building + finding
    how = "" if scanned == len(tokens) else f" (of {scanned} tokens)"
    table.add("ours", CPU_seconds=ours, times_ours=1.0, peak_GiB=peak)
    table.add("its index", CPU_seconds=building, times_ours=building / ours, peak_GiB=None)
    table.add("its search", CPU_seconds=finding, times_ours=finding / ours, peak_GiB=None)
    table.add(f"{SMALL_BATCH} more tokens", CPU_seconds=small, times_ours=small / ours, peak_GiB=None)
    table.add("substring inversion", CPU_seconds=inverting, times_ours=inverting / ours, peak_GiB=_peak_gibibytes())
    table.add(f"scan per token{how}", CPU_seconds=scanning, times_ours=scanning / ours, peak_GiB=None)
    print(f"fallbacks: {similar.fallback_counts()}")


def _timed(action: Callable[[], T]) -> tuple[T, float]:
    start = time.process_time()
    result = action()
    return result, time.process_time() - start


def _check(upstream: Tokenizer, similar: SimilarTokens, hyperwords: Sequence[set[int]], most: int) -> None:
    """The hyperwords of every token are those of the baselines, ranked and cut."""
    for row, expected in enumerate(hyperwords):
        span = slice(similar.offsets[row], similar.offsets[row + 1])
        is_hyperword = similar.relations[span] >= Relation.PREFIX_HYPERWORD
        subwords = set(similar.token_ids[span][~is_hyperword].tolist())
        ranked = sorted(expected - subwords, key=lambda i: int(upstream.frequency_rank[i]))
        room = max(0, most - len(subwords)) if similar.fallback[row] == 0 else 0
        assert similar.token_ids[span][is_hyperword].tolist() == ranked[:room]


def _peak_gibibytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _spelled(entry: Entry) -> str:
    return BEGINNING + entry.surface if entry.word_initial else entry.surface


def _scan(tokens: Sequence[Entry], vocabulary: Mapping[Entry, int]) -> list[set[int]]:
    """Ids of each token's hyperwords, by one pass over the whole vocabulary for each token."""
    texts = [(_spelled(entry), i) for entry, i in vocabulary.items()]
    results = []
    for token in tokens:
        wanted = _spelled(token)
        # Only what contains the token at all is worth judging, so the pass itself is as cheap as Python makes it.
        containing = [(text, i) for text, i in texts if wanted in text]
        results.append({i for text, i in containing if _occurs_inside(wanted, text)})
    return results


def _occurs_inside(wanted: str, text: str) -> bool:
    if len(text) == len(wanted):
        return False
    if wanted.startswith(BEGINNING) or not text.startswith(BEGINNING):
        return True
    return text.find(wanted, 2) >= 0  # beyond the beginning and the character that begins the word


def _invert(tokens: Sequence[Entry], vocabulary: Mapping[Entry, int]) -> list[set[int]]:
    """The same, by one pass over the substrings of every entry, each looked up among the tokens."""
    relatives: dict[str, set[int]] = {_spelled(token): set() for token in tokens}
    longest = max(map(len, relatives), default=0)
    for entry, i in vocabulary.items():
        text = _spelled(entry)
        size = len(text)
        starts = (0, *range(2, size)) if entry.word_initial else range(size)
        for start in starts:
            for end in range(start + 1, min(size, start + longest) + 1):
                ids = relatives.get(text[start:end])
                if ids is not None and end - start < size:
                    ids.add(i)
    return [relatives[_spelled(token)] for token in tokens]


if __name__ == "__main__":
    main()
