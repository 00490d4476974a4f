"""Names of files that stages write and others read, and of inputs with a role of their own."""

from __future__ import annotations

from pathlib import Path

from subgraft.training.stage import Inputs

# An evaluation's sentence statistics, by metric (see `metrics.sentence_statistics`). SPELLED [n]: whether source and
# reference have no unknown token in the model's vocabularies. BITS and CHARACTERS of continued text, for each test line
# [n]: both are 0 if the line does not fit into the model. CONFIDENCE [n]: the probability of each predicted class.
STATISTICS = "statistics.safetensors"
SPELLED = "spelled"
BITS, CHARACTERS = "bits", "characters"
CONFIDENCE = "confidence"
QUALITY = "intrinsic.json"
# A pretraining's weights of earlier steps: a model directory for each, by its step.
SAVED_STEPS = "steps"
LIKELIHOOD = "likelihood.json"
SEEN = "seen.json"


def further_corpora(inputs: Inputs) -> list[Path]:
    """The corpora of further directions or tasks: the inputs with a role corpus/NAME, sorted by name."""
    return [inputs[role] for role in sorted(inputs) if role.startswith("corpus/")]
