"""What mBART's noise does to real text: masked words, words per mask and examples without any noise.

On each side of English to French and of English to Chinese tatoeba from SUBGRAFT_DATA, with one unigram vocabulary of
both languages, as an mBART has it. The paper masks 35 % of the words in spans of 3.5 on average, over blocks of up to
512 tokens; a block's last span is cut to fit, so there are a little fewer words per mask.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from measurements import Cell, Measurements, measurements, options, real_text
from subgraft.config.corpora import Languages
from subgraft.data.text.reading import lines
from subgraft.modeling.families import family_named
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.words import WordBoundaries
from subgraft.training.objectives.compute.blocks import Blocks
from subgraft.training.objectives.compute.denoising import Denoising
from subgraft.training.objectives.denoising import DenoisingSettings

PAIRS = (("en", "fr"), ("en", "zh"))
CODES = {"en": "en_XX", "fr": "fr_XX", "zh": "zh_CN"}
SIZE = 8000
QUICK = 2_000  # sentences to look at


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--sentences", type=int, default=20_000, help="of each text (default: %(default)s)")
    parser.add_argument("--block-tokens", type=int, nargs="+", default=[512, 128, 32])
    arguments = parser.parse_args()
    with measurements(__doc__, arguments) as table:
        _compare(table, QUICK if arguments.quick else arguments.sentences, arguments.block_tokens)


def _compare(table: Measurements, sentences: int, blocks: list[int]) -> None:
    for pair in PAIRS:
        both = [list(_text(pair, language)) for language in pair]
        codes = [CODES[language] for language in pair]
        tokenizer = learn(
            itertools.chain(*both), kind="unigram", size=SIZE, character_coverage=1.0, mask=True, languages=codes
        )
        for language, text in zip(pair, both, strict=True):
            for block in blocks:
                measured = _measured(language, text[:sentences], tokenizer, block)
                table.add(f"{'-'.join(pair)} {language}, blocks of {block}", **measured)


def _text(pair: tuple[str, str], language: str) -> Iterator[str]:
    return lines(real_text() / "-".join(pair) / "tatoeba" / f"train.{language}.gz")


def _measured(language: str, text: list[str], tokenizer: Tokenizer, block: int) -> dict[str, Cell]:
    family, languages = family_named("mbart"), Languages(source=language, target=language)
    form = family.sequence_format({}, tokenizer, tokenizer, languages)
    blocks = Blocks(text, tokenizer, form, family.sentence_separator(tokenizer), block)
    objective = Denoising(blocks, DenoisingSettings(), seed=1)
    boundaries, mask = WordBoundaries.of(tokenizer), tokenizer.special["mask"]
    examples = [objective.example(index, epoch=0) for index in range(len(objective))]
    targets = [example.target[: example.target_body] for example in examples]
    sources = [example.source[: example.source_body] for example in examples]
    masks = [source.count(mask) for source in sources]
    words, tokens = sum(len(boundaries.words(target)) for target in targets), sum(map(len, targets))
    # A mask is a special token, and so a word; what stands around it are the words that stayed.
    plain_words = sum(len(boundaries.words(source)) for source in sources) - sum(masks)
    plain_tokens = sum(map(len, sources)) - sum(masks)
    return {
        "blocks": len(examples),
        "words_a_block": words / len(examples),
        "tokens_a_word": tokens / words,
        "masked_words": 1 - plain_words / words,
        "masked_tokens": 1 - plain_tokens / tokens,
        "words_a_mask": (words - plain_words) / sum(masks),
        "without_noise": masks.count(0) / len(masks),
    }


if __name__ == "__main__":
    main()
