"""Model directories: whatever their configuration, their index of weights or their weights say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import strategies as st

from fuzzing import answers, any_value, changed, damaged, fuzzed, written
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import count_parameters, family_of, vocabulary_sizes
from subgraft.modeling.hub import read_config, require_model
from subgraft.modeling.inference.search import generate_ids
from subgraft.modeling.load import load_model, save_model
from subgraft.modeling.tokenizers import load_tokenizers
from toys import bert, bert2bert, cased_tokenizer, english_tokenizer, german_tokenizer, gpt2, marian

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A directory of each of some families."""
    folder = tmp_path_factory.mktemp("models")
    both: Any = dict.fromkeys(("encoder", "decoder"), cased_tokenizer())
    save_model(marian(), {"encoder": english_tokenizer(), "decoder": german_tokenizer()}, folder / "marian")
    save_model(gpt2(), {"decoder": german_tokenizer()}, folder / "gpt2")
    save_model(bert(), both, folder / "bert")
    save_model(bert2bert(), both, folder / "bert2bert")
    return {path.name: path for path in folder.iterdir()}


def spoilt(sound: Path, place: Path, name: str, text: str) -> Path:
    """A directory with the files of a model, of which one is another."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for path in sound.iterdir():
        (place / path.name).symlink_to(path)
    (place / name).unlink(missing_ok=True)
    written(place / name, text)
    return place


FAMILIES = ("marian", "gpt2", "bert", "bert2bert")


@fuzzed(1000, family=st.sampled_from(FAMILIES), data=st.data())
def test_a_plan_reads_or_refuses_a_configuration(
    family: str, data: st.DataObject, models: dict[str, Path], tmp_path: Path
) -> None:
    sound = (models[family] / "config.json").read_text()
    text = data.draw(changed(st.just(json.loads(sound))) | damaged(st.just(sound)))
    place = spoilt(models[family], tmp_path / "model", "config.json", text)
    with answers():
        config = read_config(place)
        result = family_of(config)
        count_parameters(config)
        vocabulary_sizes(config)
        result.position_limit(config)
        result.in_words(config)


@fuzzed(400, family=st.sampled_from(FAMILIES), data=st.data())
def test_a_model_of_any_configuration_is_loaded_or_refused(
    family: str, data: st.DataObject, models: dict[str, Path], tmp_path: Path
) -> None:
    sound = json.loads((models[family] / "config.json").read_text())
    place = spoilt(models[family], tmp_path / "model", "config.json", data.draw(changed(st.just(sound))))
    with answers():
        load_model(place)
    with answers():
        load_tokenizers(place)


_SETTINGS: dict[str, Any] = {
    "eos_token_id": 2,
    "pad_token_id": 1,
    "bad_words_ids": [[3]],
    "suppress_tokens": [4],
    "num_beams": 2,
    "repetition_penalty": 1.2,
    "length_penalty": 0.6,
    "no_repeat_ngram_size": 3,
    "min_length": 1,
    "guidance_scale": 1,
    "exponential_decay_length_penalty": [2, 1.1],
    "sequence_bias": [[[3], 0.5]],
    "renormalize_logits": True,
}


@fuzzed(200, family=st.sampled_from(["marian", "gpt2"]), text=changed(st.just(_SETTINGS)))
def test_a_model_generates_under_any_settings_or_refuses_them(
    family: str, text: str, models: dict[str, Path], tmp_path: Path
) -> None:
    place = spoilt(models[family], tmp_path / "model", "generation_config.json", text)
    with answers():
        bundle = Bundle.load(place)
        start = {"decoder_start_token_id": bundle.padding[1]} if family == "marian" else {}
        start |= {"eos_token_id": bundle.decoder.special["eos"]}  # as every search of ours
        mask = torch.ones(1, 3, dtype=torch.long)
        generate_ids(bundle.model, input_ids=torch.tensor([[5, 6, 7]]), attention_mask=mask, max_new_tokens=4, **start)


@fuzzed(100, family=st.sampled_from(FAMILIES), count=st.integers(0, 50), first=st.integers(-50, 50))
def test_a_tokenizer_beyond_the_table_is_refused(
    family: str, count: int, first: int, models: dict[str, Path], tmp_path: Path
) -> None:
    """Added tokens, whose ids may leave a gap behind the others or repeat them."""
    name = next(path for path in models[family].rglob("tokenizer.json")).relative_to(models[family])
    place = tmp_path / "model"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(models[family], place)
    parsed = json.loads((place / name).read_text())
    last = max(token["id"] for token in parsed["added_tokens"])
    new = [
        {**parsed["added_tokens"][0], "id": last + first + number, "content": f"<{number}>"} for number in range(count)
    ]
    written(place / name, json.dumps({**parsed, "added_tokens": [*parsed["added_tokens"], *new]}))
    with answers():
        Bundle.load(place)


@fuzzed(200, family=st.sampled_from(FAMILIES), value=any_value)
def test_however_it_should_generate(family: str, value: Any, models: dict[str, Path], tmp_path: Path) -> None:
    place = spoilt(models[family], tmp_path / "model", "generation_config.json", json.dumps(value))
    with answers():
        load_model(place)


@fuzzed(300, text=damaged(st.just("model.safetensors")), names=st.booleans(), value=any_value)
def test_an_index_is_followed_within_its_folder_or_refused(
    text: str, names: bool, value: Any, models: dict[str, Path], tmp_path: Path
) -> None:
    index = {"metadata": {}, "weight_map": {"model.shared.weight": text} if names else value}
    place = spoilt(models["marian"], tmp_path / "model", "model.safetensors.index.json", json.dumps(index))
    (place / "model.safetensors").unlink()
    with answers():
        require_model(place)


@fuzzed(300, cut=st.integers(0, 4000), junk=st.binary(max_size=40))
def test_damaged_weights_are_refused(cut: int, junk: bytes, models: dict[str, Path], tmp_path: Path) -> None:
    place = spoilt(models["marian"], tmp_path / "model", "model.safetensors", "")
    content = (models["marian"] / "model.safetensors").read_bytes()
    (place / "model.safetensors").write_bytes(content[:cut] + junk + content[cut + len(junk) :])
    with answers():
        load_model(place)
