"""A model finetuned on pairs or text in Python."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import subgraft
from finished import separate_bundle
from published import CHECKPOINTS
from subgraft.base.errors import ArgumentError, UserError
from subgraft.config.corpora import Languages
from subgraft.interfaces.api.text_scores import measure_text
from toys import english, german

EN_DE = Languages(source="en", target="de")
PAIRS = list(zip(english(400, 5), german(400, 5), strict=True))


@pytest.mark.ray
def test_a_model_in_memory_is_finetuned_and_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    calls: list[subgraft.StepProgress] = []

    def finetune(out: str) -> subgraft.Finetuned:
        return subgraft.finetune(
            subgraft.Model(separate_bundle(), EN_DE),
            PAIRS,
            out=tmp_path / out,
            steps=8,
            learning_rate=1e-3,
            progress=calls.append,
        )

    finetuned = finetune("out")
    assert capsys.readouterr().out == ""
    assert any(call.step.startswith("finetune") and call.unit == "steps" for call in calls)
    frame = finetuned.frame()
    assert list(frame.index) == [0, 5, 8] and finetuned.step in frame.index
    assert frame.loc[8, "bits_per_character"] < frame.loc[0, "bits_per_character"]
    assert frame["chrf"].idxmax() == finetuned.step
    assert [axes.get_title(loc="left") for axes in finetuned.plot().axes] == ["BLEU", "chrF", "bits per character"]
    assert f"{finetuned.step} *" in str(finetuned) and "<pre" in finetuned._repr_html_()
    assert len(subgraft.translate(finetuned.load(), english(3))) == 3
    del calls[:]
    assert finetune("again").curve == finetuned.curve
    assert not calls, "the same call finds its result in the store"
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (finetuned.out / "model.safetensors").read_bytes()


@pytest.mark.ray
def test_a_language_model_is_finetuned_on_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    CHECKPOINTS["Llama-3.2-1B"].publish(tmp_path / "model")
    frame = pd.DataFrame({"body": [f"{line} {number}" for number, line in enumerate(german(900, 5))]})
    (tmp_path / "text.txt").write_text("\n".join(frame["body"][::9]), encoding="utf-8")
    calls: list[subgraft.StepProgress] = []

    def finetune(out: str) -> subgraft.Finetuned:
        model, place = tmp_path / "model", tmp_path / out
        return subgraft.finetune(model, text=frame, field="body", out=place, steps=8, progress=calls.append)

    finetuned = finetune("out")
    bits = finetuned.frame()["bits_per_character"]
    assert list(bits.index) == [0, 5, 8] and bits[8] < bits[0] and finetuned.step == bits.idxmin()
    assert measure_text(finetuned.out, [tmp_path / "text.txt"]).bits_per_character == pytest.approx(bits[8], rel=0.1)
    del calls[:]
    assert finetune("again").curve == finetuned.curve
    assert not calls, "the same call finds its result in the store"


def test_mistakes_are_refused_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    model = subgraft.Model(separate_bundle())
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    with pytest.raises(UserError, match="full"):
        subgraft.finetune(model, PAIRS, out=tmp_path / "full", languages=("en", "de"))
    with pytest.raises(ArgumentError, match="steps"):
        subgraft.finetune(model, PAIRS, out=tmp_path / "out", languages=("en", "de"), steps=0)
    with pytest.raises(UserError, match=r"^languages: the model does not say"):
        subgraft.finetune(model, PAIRS, out=tmp_path / "out")
    with pytest.raises(ArgumentError, match=r"^pairs: 10 pairs"):
        subgraft.finetune(replace(model, languages=EN_DE), PAIRS[:10], out=tmp_path / "out")
    with pytest.raises(ArgumentError, match="neither pairs nor text"):
        subgraft.finetune(model, out=tmp_path / "out")
    with pytest.raises(ArgumentError, match="on pairs or on text"):
        subgraft.finetune(model, PAIRS, text="text.txt", out=tmp_path / "out")
    assert not (tmp_path / "out").exists() and not (tmp_path / "home").exists()
