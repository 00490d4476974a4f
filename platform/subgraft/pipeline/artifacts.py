"""Names of files that stages write and others read, and of inputs with a role of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from subgraft.data.text.corpus import Corpus
from subgraft.training.stage import Inputs

# An evaluation's sentence statistics, by metric (see `metrics.sentence_statistics`). SPELLED [n]: whether source and
# reference have no unknown token in the model's vocabularies. BITS and CHARACTERS of continued text, for each test line
# [n]: both are 0 if the line does not fit into the model. CONFIDENCE [n]: the probability of each predicted class.
STATISTICS = "statistics.safetensors"
SPELLED = "spelled"
BITS, CHARACTERS = "bits", "characters"
CONFIDENCE = "confidence"
# An evaluation's figures.
EVALUATION = "evaluation.json"
# A pretraining's weights of earlier steps: a model directory for each, by its step.
SAVED_STEPS = "steps"
SEEN = "seen.json"


def read_record(artifact: Path) -> dict[str, Any]:
    """The record of a finished step."""
    record: dict[str, Any] = json.loads((artifact / "record.json").read_text(encoding="utf-8"))
    return record


def read_evaluation(evaluated: Path) -> dict[str, Any]:
    """What an evaluation has written next to its texts."""
    evaluation: dict[str, Any] = json.loads((evaluated / EVALUATION).read_text())
    return evaluation


def write_evaluation(evaluation: Mapping[str, Any], out: Path) -> None:
    (out / EVALUATION).write_text(json.dumps(evaluation, indent=1) + "\n")


def read_lines(path: Path) -> tuple[str, ...]:
    """The lines of a text file that an evaluation has written."""
    return tuple(path.read_text(encoding="utf-8").split("\n")[:-1])


def read_line_bits(evaluated: Path) -> NDArray[np.float64]:
    """Each continued line's bits and their characters [n, 2]."""
    statistics = load_file(evaluated / STATISTICS)
    return np.stack([statistics[BITS], statistics[CHARACTERS]], axis=1)


def additional_corpora(inputs: Inputs) -> list[Corpus]:
    """What is read with the input `corpus`: corpus/NAME, of further directions, sorted by name, and then `text`."""
    further = [role for role in sorted(inputs) if role.startswith("corpus/")]
    return [Corpus.open(inputs[role]) for role in (*further, *(["text"] if "text" in inputs else []))]
