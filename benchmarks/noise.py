"""What mBART's noise does to real text: masked words, words per mask and examples without any noise.

On each side of English to French and of English to Chinese tatoeba from SUBGRAFT_DATA, with one unigram vocabulary of
both languages, as an mBART has it. The paper masks 35 % of the words in spans of 3.5 on average, over blocks of up to
512 tokens; a block's last span is cut to fit, so there are a little fewer words per mask.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator

from subgraft.config.objectives import DenoisingSettings
from subgraft.errors import UserError
from subgraft.models.sequence_format import language_code
from subgraft.objectives.denoising import Denoising
from subgraft.sources.places import data_folder
from subgraft.text.reading import lines
from subgraft.vocabulary.learn import learn
from subgraft.vocabulary.tokenizer import Tokenizer
from subgraft.vocabulary.words import WordBoundaries

PAIRS = (("en", "fr"), ("en", "zh"))
CODES = {"en": "en_XX", "fr": "fr_XX", "zh": "zh_CN"}
SIZE = 8000
COLUMNS = (
    *("text", "block", "blocks", "words/block", "tokens/word"),
    *("masked words", "masked tokens", "words/mask", "without noise"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=20_000, help="of each text (default: %(default)s)")
    parser.add_argument("--block-tokens", type=int, nargs="+", default=[512, 128, 32])
    arguments = parser.parse_args()
    _print(*COLUMNS)
    for pair in PAIRS:
        both = [list(_text(pair, language)) for language in pair]
        codes = [CODES[language] for language in pair]
        tokenizer = learn(
            itertools.chain(*both), kind="unigram", size=SIZE, character_coverage=1.0, mask=True, languages=codes
        )
        for language, text in zip(pair, both, strict=True):
            for block in arguments.block_tokens:
                measured = _measured(language, text[: arguments.sentences], tokenizer, block)
                _print(f"{'-'.join(pair)} {language}", block, *measured)


def _text(pair: tuple[str, str], language: str) -> Iterator[str]:
    folder = data_folder()
    if folder is None:
        raise UserError("needs real text", hint="Set SUBGRAFT_DATA to a folder that holds en-fr and en-zh tatoeba.")
    return lines(folder / "-".join(pair) / "tatoeba" / f"train.{language}.gz")


def _measured(language: str, text: list[str], tokenizer: Tokenizer, block: int) -> Iterator[object]:
    """What COLUMNS name, from the third on."""
    objective = Denoising(text, tokenizer, language_code(tokenizer, language), DenoisingSettings(), block, seed=1)
    boundaries, mask = WordBoundaries.of(tokenizer), tokenizer.special["mask"]
    examples = [objective.example(index, epoch=0) for index in range(len(objective))]
    targets = [example.target[: example.target_body] for example in examples]
    sources = [example.source[: example.source_body] for example in examples]
    masks = [source.count(mask) for source in sources]
    words, tokens = sum(len(boundaries.words(target)) for target in targets), sum(map(len, targets))
    # A mask is a special token, and so a word; what stands around it are the words that stayed.
    kept_words = sum(len(boundaries.words(source)) for source in sources) - sum(masks)
    kept_tokens = sum(map(len, sources)) - sum(masks)
    yield from (len(examples), f"{words / len(examples):.1f}", f"{tokens / words:.2f}")
    yield from (f"{1 - kept_words / words:.2%}", f"{1 - kept_tokens / tokens:.2%}")
    yield from (f"{(words - kept_words) / sum(masks):.2f}", f"{masks.count(0) / len(masks):.2%}")


def _print(*cells: object) -> None:
    print(
        "  ".join(f"{cell!s:>{max(len(column), 8)}}" for cell, column in zip(cells, COLUMNS, strict=True)), flush=True
    )


if __name__ == "__main__":
    main()
