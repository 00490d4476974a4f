"""A candidate replaces the champion only if it is significantly better on text that selected neither."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from subgraft.base.errors import ArgumentError, OperationalError, UserError
from subgraft.base.files import file_digest
from subgraft.data.text import reading
from subgraft.evaluation.metrics.scores import check_parallel, signature
from subgraft.evaluation.metrics.sentence_statistics import FloatArray, sentence_statistics
from subgraft.evaluation.metrics.significance import Claim, Comparison, compare
from subgraft.orchestration.tracking.model_registry import CANDIDATE, CHAMPION, RegisteredVersion, Registry

# The tag with the split and the score that selected a version: `dev BLEU`, `dev chrF`. Models can be compared on the
# test set only if dev scores selected both.
SELECTED_BY, ON_DEV = "chosen_by", "dev "
TARGET_LANGUAGE = "target_language"
# Tags of the decoding of the test set: if they differ, a difference in scores is not due to the models.
DECODING = ("beam", "max_length_ratio")
# A registered model is one training. For its users it is enough that its outputs are better beyond the
# sampling error of the test sentences; nothing is claimed about its method under other seeds.
BETTER_CLAIMS = frozenset({Claim.SIGNIFICANT, Claim.OUTPUTS_DIFFER})


@dataclass(frozen=True, slots=True)
class Requirement:
    """The test that a candidate has to pass.

    Attributes:
        level: The two-sided p-value must be below it.
        samples, seed: Settings of the paired bootstrap.
    """

    level: float = 0.05
    samples: int = 1000
    seed: int = 1

    def __post_init__(self) -> None:
        """Raises UserError if no difference, however large, could pass."""
        if self.level * (self.samples + 1) <= 1:
            message = f"with {self.samples:,} samples no p-value is below {self.level:g}"
            raise ArgumentError(message, where="level", hint="Ask for more `samples`, or a higher level.")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result; `comparison` is candidate against champion in BLEU, None without a champion."""

    candidate: RegisteredVersion
    champion: RegisteredVersion | None
    comparison: Comparison | None
    promoted: bool


def promote(registry: Registry, model: str, requirement: Requirement) -> Verdict:
    """Compare a model's candidate with its champion on the test set, and move the alias if it is better.

    The test is recorded as tags of the candidate's version either way; the alias moves last. Raises UserError without
    a candidate, if one of them was not selected by dev scores, or if their tests differ.
    """
    candidate = registry.version(f"{model}@{CANDIDATE}")
    try:
        champion = registry.version(f"{model}@{CHAMPION}")
    except UserError:
        registry.point(CHAMPION, candidate)
        return Verdict(candidate, None, None, promoted=True)
    if champion.number == candidate.number:
        return Verdict(candidate, champion, None, promoted=False)
    _require_comparable(candidate, champion)
    comparison = _compare(registry, candidate, champion, requirement)
    better = comparison.difference > 0 and comparison.claim(requirement.level) in BETTER_CLAIMS
    registry.tag(candidate, _tags(candidate, champion, comparison, requirement, better))
    if better:
        if registry.version(champion.uri).aliases != champion.aliases:
            raise OperationalError("the champion has changed meanwhile; nothing is moved", where=model)
        registry.point(CHAMPION, candidate)
    return Verdict(candidate, champion, comparison, better)


def _require_comparable(candidate: RegisteredVersion, champion: RegisteredVersion) -> None:
    for version in (candidate, champion):
        if not version.tags.get(SELECTED_BY, "").startswith(ON_DEV):
            raise UserError(
                f"no tag says that dev scores chose it ({SELECTED_BY}), so the test set may have done so",
                where=version.uri,
                hint="Run its experiment again: that registers it with all that is needed.",
            )
    for tag in (TARGET_LANGUAGE, *DECODING):
        ours, theirs = candidate.tags.get(tag), champion.tags.get(tag)
        if ours != theirs:
            raise UserError(
                f"{tag} of the candidate's test is {ours}, of the champion's {theirs}",
                where=candidate.model,
                hint="Evaluate both in the same way.",
            )


def _compare(
    registry: Registry, candidate: RegisteredVersion, champion: RegisteredVersion, requirement: Requirement
) -> Comparison:
    texts = list[Path]()
    for version in (candidate, champion):
        if (directory := registry.evaluation(version)) is None:
            hint = "Run its experiment again: that registers them with it."
            raise UserError("it was registered without its test translations", where=version.uri, hint=hint)
        texts.append(directory)
    ours, theirs = texts
    for name in ("sources.txt", "references.txt"):
        if file_digest(ours / name) != file_digest(theirs / name):
            raise UserError(
                f"the two were not tested on the same text: {name} differs",
                where=f"{candidate.uri} and {champion.uri}",
                hint="Run both experiments with the same downstream test set.",
            )
    language = candidate.tags.get(TARGET_LANGUAGE, "")
    statistics = list[FloatArray]()  # BLEU's counts [1, sentences, 10] of each
    for directory in texts:
        hypotheses, references = (
            list(reading.lines(directory / name)) for name in ("hypotheses.txt", "references.txt")
        )
        check_parallel(hypotheses, references, str(directory))
        statistics.append(sentence_statistics("BLEU", hypotheses, references, language)[None])
    return compare("BLEU", *statistics, samples=requirement.samples, seed=requirement.seed)


def _tags(
    candidate: RegisteredVersion,
    champion: RegisteredVersion,
    comparison: Comparison,
    requirement: Requirement,
    better: bool,
) -> Mapping[str, str]:
    values = {
        "against": champion.uri,
        "split": "test",
        "sentences": comparison.sentences,
        "delta": round(comparison.difference, 4),
        "interval": [round(end, 4) for end in (comparison.interval.low, comparison.interval.high)],
        "p": round(comparison.p_value, 6),
        "seeds": comparison.seeds,
        "claim": comparison.claim(requirement.level).value,
        "samples": requirement.samples,
        "seed": requirement.seed,
        "level": requirement.level,
        "signature": signature("BLEU", candidate.tags.get(TARGET_LANGUAGE, "")),
        "promoted": better,
    }
    return {f"promotion.{key}": value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
