"""A configuration that writes text for a class, with corpora invented here."""

from __future__ import annotations

import json
from pathlib import Path

from small_experiments import tiny
from toys import german

GPT2 = "{family: gpt2, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16, max_positions: 256}"
SYSTEMS = """\
- {name: unconditional, vocabulary: upstream}
- {name: pseudo-self, vocabulary: upstream, conditioning: pseudo-self}
- {name: pseudo-self-own, initialiser: mean, conditioning: pseudo-self}
"""


def classed(place: Path, shape: str = GPT2, **sections: str) -> Path:
    """The configuration in a file, next to plain text and text of two classes that has the class in its words."""
    arguments = {
        "task": "class-conditional",
        "languages": "{source: de, target: de}",
        "corpora": "{upstream: {folder: upstream}, downstream: {records: {folder: downstream, fields: "
        "{text: {language: de}, label: {kind: label}}}}}",
        "upstream": "{corpus: upstream, objectives: [{kind: causal}], vocabulary: {size: 60, byte_fallback: false}}",
        "model": shape,
        "conditioning": "{vectors: 2, decoder: {d_model: 8, layers: 1, attention_heads: 2, dropout: 0.0}}",
        "pretrain": "{epochs: 4, batch_size: 500, precision: fp32, dev_sentences: 4}",
        "systems": SYSTEMS,
    }
    (place / "upstream").mkdir()
    (place / "downstream").mkdir()
    for split, size in (("train", 120), ("dev", 6), ("test", 6)):
        (place / "upstream" / f"{split}.de").write_text("".join(f"{line}\n" for line in german(size, 1)))
        records = [
            {"label": ("bad", "good")[number % 2], "text": ("nicht " if number % 2 == 0 else "gut ") + line}
            for number, line in enumerate(german(size, 2))
        ]
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (place / "downstream" / f"{split}.jsonl").write_text(lines)
    (place / "config.yaml").write_text(tiny(**arguments | sections))
    return place / "config.yaml"
