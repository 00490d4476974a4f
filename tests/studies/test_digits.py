"""The corpus of images of digits, and features of images by an encoder: files that a configuration reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from digits import IMAGES, in_words, write
from image_features import write as write_features
from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.data.sources.features import FeatureFiles
from subgraft.data.sources.registry import CorpusSource, resolve
from subgraft.data.text.features import Features
from subgraft.experiments.pipeline import Pipeline

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "digits.yaml"
FEW = {"train": 40, "dev": 10, "test": 20}
ENGLISH = Languages(source="en", target="en")


def test_numbers_are_said_in_words() -> None:
    names = {0: "zero", 7: "seven", 40: "forty", 407: "four hundred and seven", 519: "five hundred and nineteen"}
    names |= {
        1000: "one thousand",
        3021: "three thousand and twenty-one",
        9432: "nine thousand four hundred and thirty-two",
    }
    assert {number: in_words(number) for number in names} == names
    assert len({in_words(number) for number in range(10_000)}) == 10_000


def test_the_shipped_configuration_reads_the_pictures(tmp_path: Path) -> None:
    write(tmp_path / "digits", examples=FEW)
    pipeline = Pipeline(load(CONFIG, Experiment), tmp_path)
    assert pipeline.report
    source = resolve(pipeline.experiment.corpora["digits"], ENGLISH, tmp_path)
    assert {split: source.size(split) for split in source.splits} == FEW
    write(tmp_path / "again" / "digits", examples=FEW)
    again = Pipeline(load(CONFIG, Experiment), tmp_path / "again")
    assert again.report.fingerprint == pipeline.report.fingerprint


def test_no_image_of_one_split_is_in_another_and_texts_are_of_their_images(tmp_path: Path) -> None:
    write(tmp_path, examples=FEW)
    pixels, seen = {image.tobytes(): place for place, image in enumerate(load_digits().data)}, dict[str, set[int]]()
    for split, count in FEW.items():
        lines = (tmp_path / f"{split}.en").read_text().splitlines()
        for line, rows in zip(lines, Features.open(tmp_path / f"{split}.safetensors", examples=count), strict=True):
            places = [pixels[(row * 16).astype(np.float64).tobytes()] for row in rows[:, :64]]
            seen.setdefault(split, set()).update(places)
            assert line == in_words(int("".join(str(load_digits().target[place]) for place in places)))
            assert np.array_equal(rows[:, 64:], np.eye(3))
    assert not seen["train"] & seen["test"] and not seen["train"] & seen["dev"] and not seen["dev"] & seen["test"]
    assert sum(IMAGES.values()) == len(load_digits().target)


def _images(folder: Path) -> Path:
    from PIL import Image

    for place in range(5):
        Image.fromarray((load_digits().images[place] * 15.9).astype(np.uint8)).save(folder / f"{place}.png")
    captions = folder / "train.tsv"
    captions.write_text("".join(f"{place}.png\tthe digit {in_words(place)}\n" for place in range(5)))
    return captions


@pytest.mark.parametrize("kind", ["vit", "clip", "resnet"])
def test_features_of_images_are_an_encoders_states(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    captions, expected = _images(tmp_path), _encoder(kind, tmp_path / "encoder")
    write_features(str(tmp_path / "encoder"), captions, tmp_path / "pictures" / "train", "en")
    features = Features.open(tmp_path / "pictures" / "train.safetensors", examples=5)
    assert features[0].shape == expected
    assert np.isfinite(features[4]).all() and not np.allclose(features[3], features[4])
    source = CorpusSource(features=FeatureFiles(folder="pictures"))
    assert resolve(source, ENGLISH, tmp_path).size("train") == 5


def _encoder(kind: str, place: Path) -> tuple[int, int]:
    """A tiny random one, in the files that published ones have; and the shape of its output for an image."""
    from transformers import (
        CLIPConfig,
        CLIPModel,
        PreTrainedModel,
        ResNetConfig,
        ResNetModel,
        ViTConfig,
        ViTImageProcessorPil,
        ViTModel,
    )

    torch.manual_seed(0)
    size: dict[str, Any] = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    image: dict[str, Any] = {"image_size": 16, "patch_size": 8}
    models: dict[str, tuple[PreTrainedModel, tuple[int, int]]] = {
        "vit": (ViTModel(ViTConfig(**size, **image)), (5, 8)),
        "clip": (CLIPModel(CLIPConfig(text_config=size, vision_config=size | image)), (5, 8)),
        "resnet": (ResNetModel(ResNetConfig(embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1])), (4, 8)),
    }
    model, shape = models[kind]
    model.save_pretrained(place)
    ViTImageProcessorPil(size={"height": 16, "width": 16}).save_pretrained(place)
    return shape


def test_a_file_that_is_not_an_image_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    captions = _images(tmp_path)
    _encoder("vit", tmp_path / "encoder")
    (tmp_path / "3.png").write_text("no image")
    with pytest.raises(UserError, match=r"3\.png"):
        write_features(str(tmp_path / "encoder"), captions, tmp_path / "out" / "train", "en")
    (tmp_path / "3.png").unlink()
    with pytest.raises(UserError, match="no such image") as raised:
        write_features(str(tmp_path / "encoder"), captions, tmp_path / "out" / "train", "en")
    assert raised.value.where == f"{captions}:4" and not (tmp_path / "out").exists()
