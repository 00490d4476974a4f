"""A source without a word: one answer, whatever searches and however."""

from __future__ import annotations

from pathlib import Path

import pytest

from finished import Build, m2m100_bundle, separate_bundle
from sourced import settings
from subgraft.config.corpora import Languages
from subgraft.config.evaluation import DrawSettings, MeasurementSettings
from subgraft.contrib.conditioning.conditional_model import conditioned
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.ctranslate2 import export_ctranslate2, fast_translator
from subgraft.modeling.inference.ctranslate2_directory import ExportedModel
from subgraft.modeling.inference.ctranslate2_search import ExportedTranslator
from subgraft.modeling.inference.translate import Translator
from subgraft.modeling.inference.write_text import Writer, written_for
from subgraft.training.objectives.compute.conditioned import source_read
from toys import english, german_tokenizer, gpt2

LANGUAGES = Languages(source="en", target="de")
BLANK = ["", " ", "\u00a0\t ", "\u3000\u2003", "\n"]
SPOKEN = list(english(2, 5))
SOURCES = [*BLANK[:3], SPOKEN[0], *BLANK[3:], SPOKEN[1]]


@pytest.mark.parametrize("build", [separate_bundle, m2m100_bundle])
def test_a_translator_writes_nothing_for_it(build: Build, tmp_path: Path) -> None:
    bundle = build()
    bundle.save(tmp_path / "model")
    (tmp_path / "fast").mkdir()
    export_ctranslate2(tmp_path / "model", tmp_path / "fast", languages=LANGUAGES)
    exported, form = ExportedModel.open(tmp_path / "fast"), bundle.sequence_format(LANGUAGES)
    parts = (bundle.model, bundle.encoder, bundle.decoder, form)
    for beam in (1, 2):
        plain = Translator(*parts, beam=beam, max_length_ratio=1.0, max_positions=bundle.max_positions)
        fast = fast_translator(bundle, LANGUAGES, beam=beam, max_length_ratio=1.0)
        for write in (plain, fast, ExportedTranslator(exported, LANGUAGES, beam=beam, max_length_ratio=1.0)):
            alone = write(SPOKEN)
            assert write(SOURCES) == ["", "", "", alone[0], "", "", alone[1]] and all(alone)
            assert write(BLANK) == [""] * len(BLANK) and write.unfinished == 0
        assert [output.tokens for output in plain.with_probabilities(BLANK)] == [()] * len(BLANK)
    drawn = Translator(*parts, beam=None, max_length_ratio=1.0, max_positions=bundle.max_positions)
    draws = [drawn(SOURCES) for _ in range(8)]  # an untrained model may end a single output at once
    assert [any(texts) for texts in zip(*draws, strict=True)] == [False] * 3 + [True, False, False, True]


@pytest.mark.parametrize("draw", [None, DrawSettings()])
def test_a_model_that_writes_for_a_text_writes_nothing_for_it(draw: DrawSettings | None) -> None:
    model = conditioned(gpt2(), settings("prepend", kind="own-text", max_length=8), seed=1)
    bundle = Bundle(model, german_tokenizer(), german_tokenizer())
    write, read = Writer(bundle, MeasurementSettings(beam=1, draw=draw), max_tokens=12), source_read(bundle)
    assert [bool(text) for text in written_for(write, read, SOURCES)] == [False] * 3 + [True, False, False, True]
    assert written_for(write, read, BLANK) == [""] * len(BLANK) and write.unfinished == 0
