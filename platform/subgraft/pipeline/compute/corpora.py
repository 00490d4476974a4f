"""Text of an experiment: corpora, monolingual text, copied text, sides exchanged, and test pairs that training saw."""

from __future__ import annotations

from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import OTHER_SIDE, TextSide
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.side_text import build_monolingual_corpus, side_texts
from subgraft.data.synthetic_pairs import SPLIT, copied_pairs, write_pairs
from subgraft.data.tasks.question_generation import pairing
from subgraft.data.text.batches import evenly_spaced_places
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.language_id import Sample, Similarity, Verdict, similarity
from subgraft.pipeline.stages.corpora import CopiedStage, CorpusStage, ReversedStage, TextStage
from subgraft.training.context import Context, Json
from subgraft.training.stage import Inputs, Summary


def reverse_corpus(stage: ReversedStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    del context
    corpus, languages = Corpus.open(inputs["corpus"]), stage.languages
    splits = {split: ((target, source) for source, target in corpus.pairs(split, languages)) for split in corpus.splits}
    identity = {"kind": "reversed", "corpus": dict(corpus.identity)}
    return {"sizes": dict(write_pairs(splits, languages.reversed, identity, out).sizes)}


def copy_text(stage: CopiedStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    text, drop = Corpus.open(inputs["text"]), stage.copied.drop
    size, language = text.size(SPLIT, "target"), stage.languages.target
    lines = text.lines(SPLIT, "target")
    pairs = copied_pairs(lines, drop, stage.seed)
    identity = {"kind": "copied", "drop": drop, "seed": stage.seed, "text": dict(text.identity)}
    corpus = write_pairs({SPLIT: pairs}, Languages(source=language, target=language), identity, out)
    context.progress(corpus.size(SPLIT), size, "sentences")
    return {"sizes": {SPLIT: corpus.size(SPLIT)}}


# A text that contains more than this share of dev and test was probably made from the same files.
HELD_OUT_SHARE = 0.1
# A text's language is identified by this many of its lines, which are compared with this many lines of the pairs. Both
# are evenly spaced.
SAMPLE_LINES = 500
REFERENCE_LINES = 2000
_MAX_EXAMPLE_LENGTH = 100  # characters


def import_text(stage: TextStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    pairs, paired = Corpus.open(inputs["corpus"]), pairing(stage.questions)
    sides = side_texts(stage.sources, stage.languages, stage.base, pairing=paired)
    identity: dict[str, object] = {side: list(paths) for side, paths in stage.identities.items()}
    corpus, counts = build_monolingual_corpus(sides, pairs, identity, stage.cleaning, out, context.progress)
    for side in counts:
        _check_language(side, corpus, pairs, context)
    held_out = sum(pairs.size(split) for split in pairs.splits if split != "train")
    for side, side_counts in counts.items():
        if side_counts["held_out"] > HELD_OUT_SHARE * held_out:
            context.warn(
                f"downstream.text.{side} has {side_counts['held_out']:,} lines of the task's dev and test splits, "
                f"which have {held_out:,}: they are dropped, but check the origin of the text"
            )
    cleaned: dict[str, Json] = {side: dict(sorted(side_counts.items())) for side, side_counts in counts.items()}
    return {**cleaned, "generated": corpus.generated}


def _check_language(side: TextSide, corpus: Corpus, pairs: Corpus, context: Context) -> None:
    """Raises UserError for text in the language of the other side, and warns of text that resembles neither."""
    language = pairs.field(side).language
    others = [field for field in pairs.fields if field.name == OTHER_SIDE[side] and field.language != language]
    other = _sample(pairs, OTHER_SIDE[side]) if others else None
    result: Similarity = similarity(_lines(corpus, "train", side, SAMPLE_LINES), _sample(pairs, side), other)
    example = (
        result.example if len(result.example) <= _MAX_EXAMPLE_LENGTH else f"{result.example[:_MAX_EXAMPLE_LENGTH]}…"
    )
    where = f"downstream.text.{side}"
    if result.verdict is Verdict.OTHER:
        other_language = f"the {OTHER_SIDE[side]} of the pairs ({others[0].language})"
        message = f"the text looks like {other_language}, not like the {side} ({language})"
        hint = "Are source and target of downstream.text swapped?"
        raise UserError(f"{message}, as in: {example}", where=where, hint=hint)
    if result.verdict is Verdict.NEITHER:
        context.warn(f"{where} does not look like the {side} of the pairs ({language}), as in: {example}")


def _sample(pairs: Corpus, side: TextSide) -> Sample:
    return Sample(_lines(pairs, "train", side, REFERENCE_LINES), _lines(pairs, "dev", side, SAMPLE_LINES))


def _lines(corpus: Corpus, split: str, side: TextSide, max_lines: int) -> list[str]:
    text = corpus.text(split, side)
    return list(text.take(evenly_spaced_places(len(text), max_lines)) if len(text) > max_lines else text)


def import_corpus(stage: CorpusStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    del inputs, context
    paired = pairing(stage.questions)
    corpus = build(stage.source, stage.languages, stage.cleaning, out, base=stage.base, pairing=paired)
    sizes: dict[str, Json] = {split: corpus.size(split) for split in corpus.splits}
    return {"sizes": sizes, "generated": corpus.generated}
