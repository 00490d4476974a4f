"""docs/checkpoints.md: models with classifying heads, measured on their published layouts with tiny weights.

    PYTHONPATH=tests:tests/support .venv/bin/python tests/support/headed_table.py

Each cell says how many of so many are equal to transformers', or yes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

import subgraft
from checkpoint_table import PAGE, YES
from published import english, german
from published_heads import HEADED, Headed
from subgraft.embeddings.transplanting.transplant import Method
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.transformers import export_transformers
from subgraft.pipeline.compute.transfer import transfer
from transformers_outputs import lines

BEGIN = "<!-- Measured by tests/support/headed_table.py: -->"
END = "<!-- So far the heads. -->"
LINES, TEXTS = 200, 20
HEAD = """

## Models with classifying heads

A model whose `config.json` names a class for sequences, tokens, questions or choices is loaded as it is, with its
head. A new vocabulary replaces its input embeddings, and nothing else changes. Tested on published layouts with tiny
random weights:

- `ids`: lines with the ids of transformers' tokenizer, and pairs of lines if its tokenizer has a layout for pairs.
- `outputs`: logits of texts equal to transformers', also after a transfer to the model's present vocabulary.
- `graft`: `subgraft.graft` gives it a vocabulary of other text, and the head stays identical to the byte.
- `export`: equal logits of the export, which transformers alone loads, with its tokenizer.

Decoders read a pair with their end token between its texts; transformers' tokenizers have no layout for pairs in
decoders.

"""


def outputs(model: Any, ids: list[int]) -> Tensor:
    """All logits of one text, in one row."""
    inputs = torch.tensor([ids])
    with torch.no_grad():
        made = model.eval()(input_ids=inputs[:, None] if "MultipleChoice" in type(model).__name__ else inputs)
    return torch.cat([each.flatten().float() for name, each in made.items() if "logits" in name])


class Bench:
    """One checkpoint in a folder: the model of transformers, and ours."""

    def __init__(self, checkpoint: Headed, place: Path) -> None:
        self.checkpoint, self.place, self.model = checkpoint, place, place / "model"
        checkpoint.publish(self.model)
        self.theirs: Any = self.read(self.model)
        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(self.model)
        self.bundle = Bundle.load(self.model)
        self.texts = english(TEXTS)

    def read(self, directory: Path) -> Any:
        return getattr(transformers, self.checkpoint.model_class).from_pretrained(directory).eval()

    def equal(self, model: Any) -> int:
        """How many texts have transformers' logits for the published model."""
        encoded = self.tokenizer(list(self.texts))["input_ids"]
        return sum(torch.allclose(outputs(model, ids), outputs(self.theirs, ids), 1e-4, 1e-5) for ids in encoded)


def ids(bench: Bench) -> str:
    texts, layout = lines(LINES), bench.bundle.input_layout()
    cut = bench.bundle.encoder.encode_batch(texts)
    longest = {"truncation": True, "max_length": layout.longest}
    pairs = list(zip(texts, texts[1:], cut, cut[1:], strict=False)) if "encoder" in bench.bundle.tokenizers else []
    right = sum(
        bench.tokenizer(text, **longest)["input_ids"] == layout.single(one).ids
        for text, one in zip(texts, cut, strict=True)
    )
    right += sum(
        bench.tokenizer(first, second, **longest)["input_ids"] == layout.pair(one, other).ids
        for first, second, one, other in pairs
    )
    return f"{right} of {len(texts) + len(pairs)}"


def same_outputs(bench: Bench) -> str:
    out = bench.place / "same"
    transfer(bench.model, bench.bundle.tokenizers, Method("mean"), out)
    return f"{min(bench.equal(bench.bundle.model), bench.equal(Bundle.load(out).model))} of {TEXTS}"


def grafted(bench: Bench) -> str:
    made = subgraft.graft(bench.theirs, bench.tokenizer, german(300)).model
    before, after = bench.theirs.state_dict(), made.state_dict()
    changed = {name for name, tensor in before.items() if not torch.equal(tensor, after[name])}
    rows = bench.theirs.get_input_embeddings().weight
    assert changed == {name for name, tensor in before.items() if torch.equal(tensor, rows)}, changed
    return YES


def exported(bench: Bench) -> str:
    out = bench.place / "export"
    out.mkdir()
    loading = export_transformers(bench.model, out)
    model: Any = getattr(transformers, loading.model_class).from_pretrained(out)
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(out)
    assert list(tokenizer(list(bench.texts))["input_ids"]) == list(bench.tokenizer(list(bench.texts))["input_ids"])
    return f"{bench.equal(model)} of {TEXTS}"


MEASURES: Mapping[str, Callable[[Bench], str]] = {
    "ids": ids,
    "outputs": same_outputs,
    "graft": grafted,
    "export": exported,
}


def measured(name: str) -> dict[str, str]:
    """The row of a model: each cell by its column."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(HEADED[name], Path(folder))
        return {"class": HEADED[name].model_class, **{name: measure(bench) for name, measure in MEASURES.items()}}


def written_page(rows: Mapping[str, Mapping[str, str]], page: str) -> str:
    """The page with these rows in place of its measured part."""
    columns = ("class", *MEASURES)
    table = ["| model | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    table += ("| " + " | ".join([name, *(row[column] for column in columns)]) + " |" for name, row in rows.items())
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    return f"{before}{BEGIN}{HEAD}" + "\n".join(table) + f"\n\n{END}{after}"


def read_rows(page: str) -> dict[str, dict[str, str]]:
    """The rows of the page's measured table, by model and column."""
    part = page.partition(BEGIN)[2].partition(END)[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:2] == "| "]
    return {row[0]: dict(zip(cells[0][1:], row[1:], strict=True)) for row in cells[1:]}


if __name__ == "__main__":
    PAGE.write_text(written_page({name: measured(name) for name in HEADED}, PAGE.read_text("utf-8")), "utf-8")
