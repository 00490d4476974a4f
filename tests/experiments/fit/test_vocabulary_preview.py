"""What other vocabularies would do for a text, before anything is trained."""

from __future__ import annotations

import re
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import matplotlib.image
import pytest

import toys
from old_vocabularies import KINDS, TASK
from subgraft.base.errors import UserError
from subgraft.experiments.fit.base_model import BaseModelFacts
from subgraft.experiments.fit.preview_page import plot_png, verdict
from subgraft.experiments.fit.sentence_cost import measure_cost
from subgraft.experiments.fit.tokenization_report import measure_lines
from subgraft.experiments.fit.vocabulary_preview import EXAMPLES, preview_vocabularies
from subgraft.interfaces.api.advice import VocabularyAdvice
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle

TEXT = TASK * 4  # so that words are frequent enough to be worth a row


@pytest.mark.parametrize("kind", ["unigram", "wordpiece", "byte-level"])
def test_every_way_is_measured_on_lines_that_nothing_was_learnt_on(kind: str) -> None:
    old = KINDS[kind]()
    preview = preview_vocabularies(old, TEXT)
    by_way = {way: [each for each in preview.options if each.way == way] for way in ("extended", "trimmed", "replaced")}
    assert preview.old.size == len(old) and preview.old.spelling.sentences == len(TEXT) // 10
    (trimmed,) = by_way["trimmed"]
    assert trimmed.size == len(old) - preview.unused < len(old)
    tokens = [each.spelling.tokens for each in by_way["extended"]]
    assert len(tokens) == 3 and tokens == sorted(tokens, reverse=True)
    assert tokens[-1] < 0.9 * preview.old.spelling.tokens
    assert all(each.size == len(old) + each.changed for each in by_way["extended"])
    assert by_way["replaced"]


def test_what_is_worth_adding_is_frequent_and_is_reported_with_its_old_pieces() -> None:
    old = KINDS["unigram"]()
    gains = preview_vocabularies(old, TEXT).gains
    assert gains and all(gain.count >= EXAMPLES * 0.5 for gain in gains)
    assert [gain.saved for gain in gains] == sorted((gain.saved for gain in gains), reverse=True)
    assert all(
        re.sub("<0x(..)>", lambda byte: chr(int(byte[1], 16)), "".join(gain.pieces)) == gain.piece for gain in gains
    )


def test_what_cannot_be_spelled_is_counted() -> None:
    preview = preview_vocabularies(toys.german_tokenizer(), [*toys.german(200), *["Ω 数 dank"] * 40])
    assert set(preview.unknown_tokens) == {"Ω", "数"}
    assert preview.old.spelling.with_unknown > 0


def test_advice_begins_with_its_verdict() -> None:
    """By the same rules whatever the vocabulary: what it saves, what it spells, and what it would lose."""
    preview = preview_vocabularies(KINDS["unigram"](), TEXT)
    extensions = sorted((each for each in preview.options if each.way == "extended"), key=lambda each: each.changed)
    smallest = next(each for each in extensions if preview.tokens_ratio(each) <= 0.95)
    continued = verdict(preview, True)
    assert continued.startswith(
        f"Verdict: stay with the vocabulary, unless fewer tokens are worth a small loss: {smallest.changed:,} "
    )
    assert f"{1 - preview.tokens_ratio(smallest):.0%}" in continued
    assert re.match(
        r"Verdict: (replace|stay with) the vocabulary: a vocabulary of [\d,]+ subwords", verdict(preview, False)
    )
    assert "Verdict: " in str(VocabularyAdvice(preview, None, True))[:12]
    own = toys.german_tokenizer()
    no_gain = replace(preview, options=(preview.options[0],))
    assert "stay with the vocabulary, as no other would save 5%" in verdict(no_gain, True)
    unknown = preview_vocabularies(own, [*toys.german(200), *["Ω 数 dank"] * 100])
    assert "unknown to the old one" in verdict(unknown, True)


def test_of_a_text_that_a_language_model_writes_byte_by_byte_the_verdict_has_what_was_measured() -> None:
    preview = preview_vocabularies(KINDS["byte-level"](), ["привет мир", "мир дом привет", "дом мир"] * 200)
    assert preview.old.spelling.byte_share > 0.5
    assert re.match(
        r"Verdict: \d+ subwords more would save \d+% of this text's tokens\. The model writes it partly byte by byte "
        r"\(\d+% of the tokens\): of three such texts, .* `subgraft fit` measures the loss\.$",
        verdict(preview, True),
    )


def test_too_little_text_is_refused() -> None:
    with pytest.raises(UserError, match="too few to advise on"):
        preview_vocabularies(toys.german_tokenizer(), ["dank"] * 5)


def test_a_longer_sentence_and_a_larger_vocabulary_cost_more() -> None:
    bundle = Bundle(toys.marian(), toys.english_tokenizer(), toys.german_tokenizer())
    cost = measure_cost(bundle, "decoder")
    assert cost is not None and cost.width == toys.SHAPE["d_model"]
    assert cost.seconds(30, 90) > cost.seconds(10, 90) > 0
    assert cost.bytes(10, 90) == 4 * (10 * 2 * toys.SHAPE["decoder_layers"] * toys.SHAPE["d_model"] + 90)
    assert cost.table_bytes(90) == 4 * 90 * toys.SHAPE["d_model"]
    alone = Bundle(toys.gpt2(), toys.multilingual_tokenizer(), toys.multilingual_tokenizer())
    assert measure_cost(alone, "decoder") is not None


def test_the_picture_is_a_png() -> None:
    drawn = matplotlib.image.imread(BytesIO(plot_png(preview_vocabularies(KINDS["bpe"](), TEXT))), format="png")
    assert drawn.shape[0] > 300 and len({tuple(pixel) for pixel in drawn.reshape(-1, 4).tolist()}) > 20


def test_the_command_prints_all_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Bundle(toys.marian(), toys.english_tokenizer(), toys.german_tokenizer()).save(tmp_path / "marian")
    (tmp_path / "de.txt").write_text("".join(f"{line}\n" for line in toys.german(900, 7)))
    inputs = ["advise", str(tmp_path / "marian"), "--text", str(tmp_path / "de.txt")]
    assert main([*inputs, "--picture", str(tmp_path / "advice.png")]) == 0
    message = capsys.readouterr().out
    assert re.search(r"as it is\W+90\W", message) and "extended" in message and "Most worth adding" in message
    assert "seconds/" in message and "Nothing to drop" in message and "is recommended" in message
    assert (tmp_path / "advice.png").read_bytes().startswith(b"\x89PNG")


def test_a_byte_level_model_is_fitted_with_a_vocabulary_that_gives_back_all_text() -> None:
    facts = BaseModelFacts("model", "model", Path(), {}, {"decoder": KINDS["byte-level"]()})
    assert facts.vocabulary_kind == "byte-level-bpe"
    lines = [f"{line}\t{line}" for line in TEXT]
    measured = measure_lines(facts, lines, facts.vocabulary_kind)
    assert (measured.lost.lines, measured.lost.lost) == (len(lines), 0)


def test_lines_that_a_vocabulary_loses_are_counted_and_shown() -> None:
    preview = preview_vocabularies(KINDS["byte-level"](), TEXT)
    assert [option.lost.lost for option in preview.options] == [0] * len(preview.options)
    assert {option.lost.lines for option in preview.options} == {len(TEXT) // 10}
