"""Features of images by a vision encoder of your own, as a corpus of kind `features` is made of.

    python studies/image_features.py ENCODER --captions train.tsv --out pictures/train

ENCODER is a directory, or a hub id, of any model that transformers' AutoModel and AutoImageProcessor load from
safetensors: a ViT, a CLIP (its vision tower), a ResNet. Each line of `captions` is `image<TAB>text`, images looked up
in its folder. Writes pictures/train.safetensors, `features` [N, n, k] in half precision, n the states of an image, and
pictures/train.en with the texts (`--language`). Do so for train, dev and test; then

    corpora: {pictures: {features: {folder: pictures}}}

Needs pillow.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file

from subgraft.base.errors import UserError
from subgraft.data.text import reading


def captioned(captions: Path) -> list[tuple[Path, str]]:
    """Images and their texts. Raises UserError for a line that has not both, and for an image that is not there."""
    states = []
    for number, line in enumerate(reading.lines(captions), 1):
        image, tab, text = line.partition("\t")
        if not tab or not text.strip():
            raise UserError("an image, a tab and a text were expected", where=f"{captions}:{number}")
        if not (path := captions.parent / image).is_file():
            raise UserError(f"no such image: {path}", where=f"{captions}:{number}")
        states.append((path, text.strip()))
    return states


def encoder(name: str) -> tuple[Any, Any]:
    """The model, in evaluation mode, and what prepares images for it."""
    import transformers

    processors: Any = transformers.AutoImageProcessor
    model = transformers.AutoModel.from_pretrained(name, use_safetensors=True)
    return getattr(model, "vision_model", model).eval(), processors.from_pretrained(name)


@torch.inference_mode()
def features_of(name: str, images: Sequence[Path], batch_size: int = 16) -> Iterator[np.ndarray]:
    """The encoder's top states of each image [n, k]. Raises UserError for a file that is not an image."""
    from PIL import Image, UnidentifiedImageError

    model, prepare = encoder(name)
    for begin in range(0, len(images), batch_size):
        try:
            opened = [Image.open(path).convert("RGB") for path in images[begin : begin + batch_size]]
        except UnidentifiedImageError as error:
            raise UserError(f"no image: {error}", where="--captions") from None
        states = model(prepare(opened, return_tensors="pt")["pixel_values"]).last_hidden_state
        # Of a convolutional encoder [B, k, height, width].
        yield from (states.flatten(2).mT if states.ndim == 4 else states).numpy().astype(np.float16)


def write(name: str, captions: Path, out: Path, language: str) -> None:
    """OUT.safetensors and OUT.LANGUAGE."""
    pairs = captioned(captions)
    features = np.stack(list(features_of(name, [path for path, _ in pairs])))
    out.parent.mkdir(parents=True, exist_ok=True)
    save_file({"features": features}, out.with_name(f"{out.name}.safetensors"))
    lines = "".join(f"{text}\n" for _, text in pairs)
    out.with_name(f"{out.name}.{language}").write_text(lines, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoder", metavar="ENCODER")
    parser.add_argument("--captions", type=Path, required=True, metavar="FILE")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER/SPLIT")
    parser.add_argument("--language", default="en")
    arguments = parser.parse_args()
    try:
        write(arguments.encoder, arguments.captions, arguments.out, arguments.language)
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
