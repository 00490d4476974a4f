"""How good the advice is on shifts that it was not made from.

    python studies/judged_advice.py [itdocs=DIR/map.json laws=DIR/map.json …] --out DIR

Each map.json is one of few_pairs.py: test chrF of systems by number of pairs and rate of the embeddings, with `old` and
`mean` among the systems. Without one, the measurements that `fit` and `advise` follow are judged themselves. Each shift
is left out in turn, and each of its settings gets the recommendation of the others (experiments/fit/priors.py). Prints
how often that names the best system or one within the margin of it, and what following it gains over always taking
`mean` and always keeping the old vocabulary. Writes results.jsonl and table.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from finished_runs import exit_code, write_results
from subgraft.base.errors import UserError
from subgraft.experiments.fit.priors import INITIALISER, MARGIN, OLD, PRIORS, Prior, Shift, recommend

_GAP = 1.0  # maps do not have it: the same for all, so that it decides nothing


@dataclass(frozen=True)
class Judged:
    """A setting of a shift that was left out: the system recommended for it, the best one, and test chrF."""

    shift: str
    pairs: int
    frozen: bool
    recommended: str
    best: str
    chrf: float
    best_chrf: float
    default_chrf: float
    old_chrf: float


def read(named: str) -> list[Prior]:
    """The priors of SHIFT=FILE. Raises UserError."""
    shift, separator, path = named.partition("=")
    if not separator or not Path(path).is_file():
        raise UserError("expected SHIFT=FILE, with a map.json that few_pairs.py wrote", where=named)
    scores: dict[tuple[int, float], dict[str, float]] = {}
    for cell in json.loads(Path(path).read_text(encoding="utf-8")):
        setting = cell["pairs"], cell["embedding_learning_rate"]
        scores.setdefault(setting, {})[cell["system"]] = cell["values"]["chrF"]
    if not all({OLD, INITIALISER} <= systems.keys() for systems in scores.values()):
        raise UserError(f"every setting needs the systems {OLD} and {INITIALISER}", where=path)
    return [Prior(Shift(shift, _GAP), pairs, systems, frozen=not rate) for (pairs, rate), systems in scores.items()]


def judge(priors: Sequence[Prior]) -> list[Judged]:
    """Every setting of which another shift has one with embeddings alike trained or frozen."""
    judged = []
    for left_out in priors:
        others = [each for each in priors if each.shift != left_out.shift and each.frozen == left_out.frozen]
        if not others:
            continue
        ratio = left_out.shift.tokens_ratio
        named = recommend(others, left_out.pairs, tokens_ratio=ratio, frozen=left_out.frozen).system
        scores = left_out.chrf
        best = max(scores, key=scores.__getitem__)
        # A system that this shift lacks cannot be followed here.
        followed = named if named in scores else INITIALISER
        judged.append(
            Judged(
                *(left_out.shift.name, left_out.pairs, left_out.frozen, followed, best),
                *(scores[system] for system in (followed, best, INITIALISER, OLD)),
            )
        )
    return judged


def table(judged: Sequence[Judged]) -> str:
    """As Markdown, and the sums."""
    lines = ["| shift | pairs | embeddings | recommended | chrF | best | chrF | mean | old |", "|---" * 9 + "|"]
    for each in judged:
        kind = "frozen" if each.frozen else "trained"
        scores = (f"{value:.1f}" for value in (each.chrf, each.best_chrf, each.default_chrf, each.old_chrf))
        chrf, best, default, old = scores
        named = f"{each.recommended} | {chrf} | {each.best} | {best}"
        lines.append(f"| {each.shift} | {each.pairs:,} | {kind} | {named} | {default} | {old} |")
    hits = sum(each.recommended == each.best for each in judged)
    near = sum(each.best_chrf - each.chrf <= MARGIN for each in judged)
    over_default = fmean(each.chrf - each.default_chrf for each in judged)
    over_old = fmean(each.chrf - each.old_chrf for each in judged)
    lines += [
        "",
        f"The best system in {hits} of {len(judged)} settings, one within {MARGIN:g} chrF of it in {near}.",
        f"Gain in chrF over always {INITIALISER}: {over_default:+.2f}; over always {OLD}: {over_old:+.2f}.",
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("maps", nargs="*", metavar="SHIFT=FILE")
    options.add_argument("--out", type=Path, required=True, metavar="DIR")
    args = options.parse_args(arguments)

    def answer() -> None:
        judged = judge([prior for named in args.maps for prior in read(named)] or PRIORS)
        if not judged:
            raise UserError("no setting has a counterpart in another shift", where="judged_advice")
        write_results(judged, table(judged), args.out)

    return exit_code("judged_advice", answer)


if __name__ == "__main__":
    sys.exit(main())
