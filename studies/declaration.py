"""What the vocabularies of an allocation have for text of another domain: the Universal Declaration of Human Rights.

    subgraft vocab allocate CONFIG [key=value …]
    SUBGRAFT_DATA=… python studies/declaration.py CONFIG [key=value …]

Reads the vocabularies that the allocation has left in the store, and every line of the Declaration in those of the
configuration's languages that it is there in (mono/udhr). ALP is of these lines by their own unigram under each
vocabulary, as `subgraft vocab capacity` counts it: nats a sentence, more is better, not comparable between languages.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from finished_runs import exit_code
from subgraft.base.errors import UserError
from subgraft.config.loading import load
from subgraft.contrib.allocation.session import ALLOCATED, JOINT, AllocationPipeline
from subgraft.contrib.allocation.settings import Allocation
from subgraft.data.sources.paths import find_file
from subgraft.data.text import reading
from subgraft.orchestration.store.home import default_home
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.subwords.vocabulary.capacity import Capacity, capacity
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

DECLARATION = "mono/udhr/lang-tab-line.txt.gz"
# Where the Declaration's code is not the configuration's.
CODES = {"de": "deu", "en": "eng", "fr": "fra", "ja": "jpn"}


def declaration(languages: Sequence[str], base: Path) -> dict[str, list[str]]:
    """The Declaration's lines in those of the languages that it is there in. Raises UserError where it is not."""
    of_code: dict[str, list[str]] = {CODES.get(language, language): [] for language in languages}
    for tagged in reading.lines(find_file(DECLARATION, base)):
        code, _, line = tagged.partition("\t")
        if code in of_code and line.strip():
            of_code[code].append(line)
    return {language: lines for language in languages if (lines := of_code[CODES.get(language, language)])}


def made(store: Store, step: Step) -> Path:
    """Where a step's artifact lies. Raises UserError where there is none."""
    if store.find(step) is None:
        raise UserError(
            f"'{step.name}' is not in the store", hint="Run `subgraft vocab allocate` with the same CONFIG."
        )
    return store.artifact(step)


def vocabulary(pipeline: AllocationPipeline, store: Store, name: str, total: int) -> Tokenizer:
    """The allocated or the joint vocabulary of a total. Raises UserError where it has not been made."""
    step = pipeline.vocabularies(total).get(f"{name}/{total}")
    if not isinstance(step, Step):
        raise UserError(f"the allocation has no {name} vocabulary", where="baselines", hint="Say `joint: true`.")
    return Tokenizer.load(made(store, step))


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("config", type=Path, metavar="CONFIG")
    options.add_argument("overrides", nargs="*", metavar="key=value")
    args = options.parse_args(arguments)

    def answer() -> None:
        settings, base = load(args.config, Allocation, args.overrides), args.config.absolute().parent
        pipeline, store = AllocationPipeline(settings, base), Store(default_home())
        spoken = declaration(list(settings.sources), base)
        for total in settings.totals:
            vocabularies = {name: vocabulary(pipeline, store, name, total) for name in (ALLOCATED, JOINT)}
            capacities = {
                language: {name: capacity(tokenizer, lines) for name, tokenizer in vocabularies.items()}
                for language, lines in spoken.items()
            }
            print("\n".join(report(total, capacities)), flush=True)

    return exit_code("declaration", answer)


def report(total: int, capacities: Mapping[str, Mapping[str, Capacity]]) -> Iterator[str]:
    """A table of a total's vocabularies by language, and in how many the allocated one is ahead."""
    yield f"\n{total:,} places\n"
    both = f"{ALLOCATED} | {JOINT}"
    yield f"| | lines | ALP {both} | tokens {both} | unknown | bytes {both} |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for language, each in capacities.items():
        own, joint = each[ALLOCATED], each[JOINT]
        yield (
            f"| {language} | {own.sentences} | {own.alp:.2f} | {joint.alp:.2f} | {own.tokens:,} | {joint.tokens:,} | "
            f"{own.unknown + joint.unknown} | {own.byte_tokens} | {joint.byte_tokens} |"
        )
    pairs = [(each[ALLOCATED], each[JOINT]) for each in capacities.values()]
    yield (
        f"\nThe {ALLOCATED} one has more ALP in {sum(own.alp > joint.alp for own, joint in pairs)} of {len(pairs)} "
        f"languages, and fewer tokens in {sum(own.tokens < joint.tokens for own, joint in pairs)}."
    )


if __name__ == "__main__":
    sys.exit(main())
