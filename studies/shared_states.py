"""Does an encoder give sentences and their translations similar states? How often the nearest one is the translation.

    python studies/shared_states.py MODEL --languages de-en --files SOURCES TARGETS [--sentences 500]

MODEL is a directory of a model that marks languages, as a run leaves it under .subgraft/store/{pretrain,finetune}.
FILES are parallel, a sentence a line, and may be .gz. A sentence is the mean of its states at the encoder's top, minus
the mean of its language; similarity is the cosine. Chance is one in as many as there are sentences.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from subgraft.config.corpora import Languages
from subgraft.interfaces.cli.arguments import language_pair
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import encoder_states, without_dropout
from subgraft.training.objectives.compute.translation import Translation


@torch.no_grad()
def sentence_vectors(bundle: Bundle, sentences: Sequence[str], language: str) -> Tensor:
    """The centred mean of each sentence's states [N, d]."""
    form = bundle.sequence_format(Languages(source=language, target=language))
    examples = Translation([(text, text) for text in sentences], bundle.encoder, bundle.decoder, form, 512)
    vectors = []
    for index in range(len(sentences)):
        ids = torch.as_tensor(examples.example(index, 0).source)[None]
        states = encoder_states(bundle.model, input_ids=ids, attention_mask=torch.ones_like(ids))
        vectors.append(states[0].float().mean(dim=0))
    made = torch.stack(vectors)
    return made - made.mean(dim=0)


def retrieved(sources: Tensor, targets: Tensor) -> float:
    """The share of sources whose nearest target by cosine is their translation, in percent."""
    unit = [torch.nn.functional.normalize(each, dim=1) for each in (sources, targets)]
    nearest = (unit[0] @ unit[1].T).argmax(dim=1)
    return 100 * float((nearest == torch.arange(len(nearest))).float().mean())


def lines_of(path: Path, most: int) -> list[str]:
    """The first lines of a file, which may be compressed."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as text:
        return [str(line).rstrip("\n") for line in islice(text, most)]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", type=Path)
    options.add_argument("--languages", type=language_pair, required=True)
    options.add_argument("--files", type=Path, nargs=2, required=True)
    options.add_argument("--sentences", type=int, default=500)
    chosen = options.parse_args()
    bundle = Bundle.load(chosen.model)
    without_dropout(bundle.model)
    codes = (chosen.languages.source, chosen.languages.target)
    sources, targets = (
        sentence_vectors(bundle, lines_of(path, chosen.sentences), code)
        for path, code in zip(chosen.files, codes, strict=True)
    )
    print(f"{chosen.languages.name}: {retrieved(sources, targets):.1f} % of {len(sources)} sentences")


if __name__ == "__main__":
    main()
