"""Translations of many lines: kept in chunks, searched or drawn."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from subgraft.config.corpora import Languages
from subgraft.modeling.bundle import Bundle
from subgraft.training import chunked_translation
from subgraft.training.chunked_translation import Search, Translations, translate_in_chunks
from toys import english, english_tokenizer, german_tokenizer, marian

LANGUAGES = Languages(source="en", target="de")


def drawn(work: Path, seed: int | None, beam: int | None = None) -> Translations:
    context = SimpleNamespace(work=work, progress=lambda *counts: None)
    bundle = Bundle(marian(), english_tokenizer(), german_tokenizer())
    return translate_in_chunks(bundle, english(6), LANGUAGES, Search(beam, seed=seed), context, "train")


def test_what_is_drawn_follows_from_the_seed_also_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked_translation, "CHUNK", 2)
    state = torch.get_rng_state()
    texts = drawn(tmp_path / "whole", 1).texts
    assert torch.equal(torch.get_rng_state(), state)
    files = sorted((tmp_path / "whole").rglob("*.json"))
    assert len(files) == 3
    files[1].unlink()
    written_at = files[0].stat().st_mtime_ns
    assert drawn(tmp_path / "whole", 1).texts == texts and files[0].stat().st_mtime_ns == written_at
    assert drawn(tmp_path / "other", 2).texts != texts
    assert drawn(tmp_path / "searched", None, beam=2).texts != texts
