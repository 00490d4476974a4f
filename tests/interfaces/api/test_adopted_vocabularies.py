"""Another model's vocabulary with its embeddings, by the command and the API."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import published
import subgraft
from subgraft.base.errors import UserError
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import side
from subgraft.subwords.vocabulary.alignment import align
from toys import SHAPE, build_marian, english_tokenizer, german_tokenizer, marian

Publish = Callable[[Path], None]


def placed(place: Path, name: str, publish: Publish) -> str:
    (place / name).mkdir()
    publish(place / name)
    return str(place / name)


def moved(*arguments: str) -> None:
    assert main(["transfer", *arguments]) == 0


@pytest.mark.parametrize("mapping", ["omp", "linear"])
@pytest.mark.parametrize(
    ("publish", "donate"),
    [
        (published.gpt2, published.llama_3),
        (published.llama_2, published.gpt2),
        (published.gpt2, published.llama_2),
        (published.llama_3, published.mbert),
    ],
    ids=["gpt2-llama3", "llama2-gpt2", "gpt2-llama2", "llama3-mbert"],
)
def test_a_decoder_adopts_the_tokenizer_of_another_model(
    publish: Publish, donate: Publish, mapping: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, donor, out = placed(tmp_path, "model", publish), placed(tmp_path, "donor", donate), tmp_path / "out"
    moved("--model", model, "--vocab", donor, "--method", "donor", "--mapping", mapping, "--out", str(out))
    assert "fallbacks: none" in capsys.readouterr().out
    old, new, donated = Bundle.load(model), Bundle.load(out), Bundle.load(donor)
    assert new.decoder.fingerprint == donated.decoder.fingerprint
    report = json.loads((out / "transfer.json").read_text())["decoder"]
    assert report["unseen"] > 0 and report["size"] == len(donated.decoder)
    alignment = align(old.decoder, new.decoder)
    tables = side(old.model, "decoder").input.weight, side(new.model, "decoder").input.weight
    for token in new.decoder.special.values():
        if alignment.origins[token] >= 0:
            assert torch.equal(tables[1][token], tables[0][alignment.origins[token]])
    made = tables[1][list(alignment.unseen)].float()
    assert torch.isfinite(made).all() and len(made.unique(dim=0)) > 0.9 * len(made)
    logits = new.model(torch.tensor([[1, 2, 3]])).logits
    assert torch.isfinite(logits).all() and logits.shape[-1] >= len(new.decoder)


def test_each_side_of_an_encoder_decoder_gets_its_own_vocabulary(tmp_path: Path) -> None:
    """A Marian gets the vocabularies of another: of its encoder, and of its decoder; and it translates."""
    Bundle(marian(), english_tokenizer(), german_tokenizer()).save(tmp_path / "model")
    sources, targets = english_tokenizer(120), german_tokenizer(130)
    other = build_marian(sources, targets, seed=4, **{**SHAPE, "d_model": 24})
    donor = subgraft.Model(Bundle(other, sources, targets))
    donor.save(tmp_path / "donor")
    paths = str(tmp_path / "model"), str(tmp_path / "donor"), str(tmp_path / "out")
    moved(
        "--model", paths[0], "--vocab", paths[1], "--method", "donor", "--sides", "encoder,decoder", "--out", paths[2]
    )
    made = subgraft.load(paths[2])
    assert made.bundle.encoder.fingerprint == sources.fingerprint
    assert made.bundle.decoder.fingerprint == targets.fingerprint
    assert len(subgraft.translate(made, ["this is a house.", "thanks."])) == 2
    again = subgraft.transfer(paths[0], donor, method="donor", sides=("encoder", "decoder"), mapping="omp")
    for one, two in zip(made.bundle.model.parameters(), again.bundle.model.parameters(), strict=True):
        assert torch.equal(one, two)


def test_models_of_one_table_adopt_a_donor_for_both_sides(tmp_path: Path) -> None:
    model, donor = placed(tmp_path, "model", published.t5), placed(tmp_path, "donor", published.madlad400)
    moved(
        *("--model", model, "--vocab", donor, "--method", "donor", "--mapping", "linear"),
        *("--sides", "encoder,decoder", "--out", str(tmp_path / "out")),
    )
    made = subgraft.load(tmp_path / "out")
    assert len(subgraft.translate(made, ["this is a house."], languages=("en", "de"))) == 1


def test_a_vocabulary_of_the_task_takes_rows_of_a_donor_that_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, donor = placed(tmp_path, "model", published.gpt2), placed(tmp_path, "donor", published.llama_3)
    subgraft.learn_vocabulary(published.english(), size=500, like=model, kind="byte-level-bpe").save(tmp_path / "task")
    arguments = ["--model", model, "--vocab", str(tmp_path / "task"), "--method", "donor"]
    assert main(["transfer", *arguments, "--out", str(tmp_path / "out")]) == 2
    assert "donor cannot be used" in capsys.readouterr().err
    moved(*arguments, "--donor", donor, "--atoms", "4", "--out", str(tmp_path / "out"))
    assert "by subwords" in capsys.readouterr().out


def test_an_unusable_donor_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, donor = placed(tmp_path, "model", published.gpt2), placed(tmp_path, "donor", published.llama_3)
    out = str(tmp_path / "out")
    with pytest.raises(UserError, match="nothing else takes one"):
        subgraft.transfer(model, donor, method="mean", donor=donor)
    with pytest.raises(UserError, match="a vocabulary has no embeddings"):
        subgraft.transfer(model, german_tokenizer(), method="donor")
    with pytest.raises(UserError, match="atoms applies to mapping: omp"):
        subgraft.transfer(model, donor, method="donor", mapping="linear", atoms=3)
    with pytest.raises(UserError, match="ridge"):
        subgraft.transfer(model, donor, method="donor", mapping="linear", ridge=-1.0)
    with pytest.raises(UserError, match="mapping"):
        subgraft.transfer(model, donor, method="donor", mapping="affine")
    weights = Path(donor) / "model.safetensors"
    tensors = load_file(weights)
    save_file({name: tensor for name, tensor in tensors.items() if "embed_tokens" not in name}, weights)
    assert main(["transfer", "--model", model, "--vocab", donor, "--method", "donor", "--out", out]) == 2
    said = capsys.readouterr().err
    assert "donor cannot be used: " in said and "missing" in said, said
    weights.write_bytes(b"nothing")
    assert main(["transfer", "--model", model, "--vocab", donor, "--method", "donor", "--out", out]) == 2
    assert "donor cannot be used" in capsys.readouterr().err and not Path(out).exists()
