from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, BertForMaskedLM, BertForPreTraining, PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import SideName
from subgraft.embeddings.transplanting.transplant import Method
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_named
from subgraft.modeling.inference.translate import Translator
from subgraft.modeling.load import load_model, save_model
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.pipeline.compute.transfer import transfer
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import (
    SHAPE,
    bert,
    bert2bert,
    cased_tokenizer,
    english_tokenizer,
    german,
    german_tokenizer,
    gpt2,
    marian,
    mbart,
    multilingual_tokenizer,
    publish_bert,
    publish_mbart,
)

Made = tuple[PreTrainedModel, dict[SideName, Tokenizer]]


def made(family: str) -> Made:
    if family == "marian":
        return marian(), {"encoder": english_tokenizer(), "decoder": german_tokenizer()}
    if family == "mbart":
        return mbart(), dict.fromkeys(("encoder", "decoder"), multilingual_tokenizer())
    if family in ("bert", "encoder-decoder"):
        return bert() if family == "bert" else bert2bert(), dict.fromkeys(("encoder", "decoder"), cased_tokenizer())
    return gpt2(), {"decoder": german_tokenizer()}


@pytest.mark.parametrize("family", ["marian", "mbart", "gpt2", "bert", "encoder-decoder"])
def test_what_is_saved_is_loaded_bit_for_bit(family: str, tmp_path: Path) -> None:
    model, tokenizers = made(family)
    save_model(model, tokenizers, tmp_path)
    again = load_model(tmp_path)
    assert not again.training
    expected, result = model.state_dict(), again.state_dict()
    assert expected.keys() == result.keys()
    assert all(torch.equal(result[name], tensor) for name, tensor in expected.items())
    if again.can_generate():
        assert again.generation_config.max_length == model.generation_config.max_length
    for side, tokenizer in load_tokenizers(tmp_path).items():
        assert tokenizer.fingerprint == tokenizers[side].fingerprint


def test_weights_keep_their_type_unless_another_is_asked_for(tmp_path: Path) -> None:
    model, tokenizers = made("marian")
    save_model(model.bfloat16(), tokenizers, tmp_path)
    assert load_model(tmp_path).dtype == torch.bfloat16
    assert load_model(tmp_path, dtype=torch.float32).dtype == torch.float32


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    directory = tmp_path / "model"
    save_model(*made("marian"), directory)
    return directory


def test_pickled_weights_are_refused(saved: Path) -> None:
    (saved / "model.safetensors").unlink()
    torch.save({}, saved / "pytorch_model.bin")
    with pytest.raises(UserError, match="no weights in safetensors format"):
        load_model(saved)


def test_an_unknown_family_is_refused_and_the_known_ones_are_listed(saved: Path) -> None:
    config = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps({**config, "model_type": "blenderbot"}))
    with pytest.raises(UserError, match=r"bart, bert, .*, gpt2, gpt_neox, .*llama, .*, qwen2"):
        load_model(saved)


def test_code_in_the_directory_is_never_run(saved: Path) -> None:
    config = json.loads((saved / "config.json").read_text())
    config["auto_map"] = {"AutoConfig": "intruder.C", "AutoModelForSeq2SeqLM": "intruder.M"}
    (saved / "config.json").write_text(json.dumps(config))
    (saved / "intruder.py").write_text("raise SystemExit('this code was run')")
    assert load_model(saved).config.model_type == "marian"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"decoder_vocab_size": 91}, "cannot be loaded"),
        ({"encoder_layers": 2}, "weights are missing"),
        ({"pad_token_id": 5000}, "cannot be loaded"),
    ],
)
def test_weights_that_do_not_fit_their_configuration_are_refused(
    change: dict[str, int], complaint: str, saved: Path
) -> None:
    config = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(UserError, match=complaint):
        load_model(saved)


def test_a_truncated_file_is_refused(saved: Path) -> None:
    weights = saved / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(UserError, match="cannot be loaded"):
        load_model(saved)


@pytest.mark.parametrize("name", ["./absent", "a/b/c", "/nowhere/at/all", "has space"])
def test_what_is_neither_a_directory_nor_a_hub_id_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="no such model directory"):
        load_model(name)


@pytest.mark.parametrize("pretraining", [False, True])
def test_a_published_bert_is_loaded_and_made_into_an_encoder_decoder(pretraining: bool, tmp_path: Path) -> None:
    """Old names of weights, a second head, and tied weights that the file leaves out."""
    published = publish_bert(tmp_path / "published", pretraining=pretraining)
    loaded = Bundle.load(tmp_path / "published")
    assert type(loaded.model) is (BertForPreTraining if pretraining else BertForMaskedLM)
    assert loaded.max_positions == SHAPE["max_positions"]
    tokens = torch.tensor([[2, *loaded.encoder.encode("thankful garden"), 3]])
    outputs = published(tokens)
    expected = outputs.prediction_logits if pretraining else outputs.logits
    outputs = loaded.model(tokens)
    assert torch.equal(outputs.prediction_logits if pretraining else outputs.logits, expected)
    made = Bundle(family_named("bert").assemble(loaded.model, loaded.encoder, 1), loaded.encoder, loaded.decoder)
    made.save(tmp_path / "made")
    again = Bundle.load(tmp_path / "made")
    inputs = {"input_ids": tokens, "decoder_input_ids": tokens}
    assert torch.equal(again.model(**inputs).logits, made.model(**inputs).logits)
    assert again.encoder.fingerprint == again.decoder.fingerprint == loaded.encoder.fingerprint
    standard = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "made").eval()
    assert torch.equal(standard(**inputs).logits, made.model(**inputs).logits), "transformers alone reads it"


def test_a_published_mbart_is_loaded_and_translates_with_another_vocabulary(tmp_path: Path) -> None:
    published = publish_mbart(tmp_path / "published")
    bundle = Bundle.load(tmp_path / "published")
    assert len(bundle.encoder) == published.config.vocab_size
    form = bundle.sequence_format(Languages(source="en", target="de"))
    source = torch.tensor([[*bundle.encoder.encode("thankful garden"), *form.source_ending]])
    start = torch.tensor([[form.start]])
    expected = published(source, decoder_input_ids=start).logits
    torch.testing.assert_close(bundle.model(source, decoder_input_ids=start).logits, expected)
    vocabulary = learn(german(400, 7), kind="unigram", size=180, like=bundle.decoder)
    transfer(tmp_path / "published", {"decoder": vocabulary}, Method("mean"), tmp_path / "fitted")
    fitted = Bundle.load(tmp_path / "fitted")
    form = fitted.sequence_format(Languages(source="en", target="de"))
    assert form.start == vocabulary.languages["de_DE"]
    limits = {"beam": 2, "max_length_ratio": 1.0, "max_positions": fitted.max_positions}
    translate = Translator(fitted.model, fitted.encoder, fitted.decoder, form, **limits)  # type: ignore[arg-type]
    outputs = translate.with_probabilities(["thankful garden", "land"])
    assert all(0 <= probability <= 1 for output in outputs for probability in output.probabilities)
    assert fitted.model.generation_config.forced_eos_token_id == vocabulary.special["eos"]


def test_a_hub_id_loads_from_the_local_copy_and_an_absent_one_says_so(saved: Path, tmp_path: Path) -> None:
    home = tmp_path / "hub"
    snapshot = home / "models--invented--model" / "snapshots" / ("0" * 40)
    shutil.copytree(saved, snapshot)
    (home / "models--invented--model" / "refs").mkdir()
    (home / "models--invented--model" / "refs" / "main").write_text("0" * 40)
    program = """
from subgraft.base.errors import OperationalError
from subgraft.modeling.load import load_model
from subgraft.modeling.tokenizers import load_tokenizers
assert load_model("invented/model").config.model_type == "marian"
assert set(load_tokenizers("invented/model")) == {"encoder", "decoder"}
try:
    load_model("invented/other")
except OperationalError as error:
    assert "hub" in error.what, error
else:
    raise AssertionError("an absent model was loaded")
"""
    environment = {**os.environ, "HF_HUB_CACHE": str(home), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_weights_with_nan_or_infinity_are_refused(value: float, dtype: torch.dtype, tmp_path: Path) -> None:
    model, tokenizers = made("marian")
    model.to(dtype)  # type: ignore[arg-type]
    save_model(model, tokenizers, tmp_path / "sound")
    assert Bundle.load(tmp_path / "sound").model.dtype == dtype
    with torch.no_grad():
        model.get_parameter("model.encoder.layers.0.fc1.weight")[1, 2] = value
    save_model(model, tokenizers, tmp_path / "model")
    with pytest.raises(UserError, match=r"layers\.0\.fc1\.weight has NaN or infinity"):
        load_model(tmp_path / "model")
