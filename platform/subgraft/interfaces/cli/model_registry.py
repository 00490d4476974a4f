"""subgraft models list | show | promote | pull: the registered models."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from subgraft.base.errors import UserError
from subgraft.base.security.terminal_escaping import say
from subgraft.interfaces.cli.arguments import Commands, add_json, add_out, console, number_in, print_json, whole_number
from subgraft.orchestration.store.outputs import new_directory
from subgraft.orchestration.tracking.server import recording_server

if TYPE_CHECKING:
    from subgraft.orchestration.tracking.promotion import Requirement, Verdict

MODEL = "a registered model: models:/NAME@ALIAS, models:/NAME/VERSION, or its champion, models:/NAME"
NOT_BETTER = 1


def add_to(commands: Commands) -> None:
    group = commands.add_parser("models", help="the registered models").add_subparsers(required=True)
    listing = group.add_parser("list", help="list versions with their aliases, systems and scores")
    add_json(listing)
    listing.set_defaults(command=list_models)

    show = group.add_parser("show", help="show everything recorded about a version, and its card")
    show.add_argument("model", metavar="NAME[@ALIAS|/VERSION]", help=MODEL)
    show.set_defaults(command=show_model)

    pull = group.add_parser("pull", help="copy a version into a directory, and verify it")
    pull.add_argument("model", metavar="models:/NAME@ALIAS", help=MODEL)
    add_out(pull)
    pull.set_defaults(command=pull_model)

    what = "make the candidate the champion if its test outputs are better by more than sampling error"
    promote = group.add_parser("promote", help=what)
    promote.add_argument("model", metavar="NAME")
    level = number_in("between 0 and 1", lambda value: 0 < value < 1)
    promote.add_argument("--level", type=level, default=0.05, help="significance level (default 0.05)")
    promote.add_argument(
        "--samples", type=whole_number(100, 100_000), default=1000, help="bootstrap samples (default 1000)"
    )
    promote.add_argument("--seed", type=whole_number(0), default=1, help="seed of the bootstrap (default 1)")
    promote.set_defaults(command=promote_model)


def list_models(arguments: argparse.Namespace) -> None:
    from subgraft.base.terminal import Table
    from subgraft.evaluation.reporting.numbers import fixed
    from subgraft.orchestration.tracking.model_registry import Registry

    with recording_server() as server:
        versions = Registry(server).versions()
    if arguments.json:
        print_json(models=versions)
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("model", "version", "aliases", "system", "seed", "dev BLEU", "test BLEU", "registered"):
        table.add_column(heading, justify="right" if "BLEU" in heading else "left")
    for version in versions:
        scores = [fixed(float(version.tags[tag]) if tag in version.tags else None) for tag in ("dev.BLEU", "test.BLEU")]
        aliases, registered = ", ".join(version.aliases), version.created.strftime("%Y-%m-%d %H:%M")
        system, seed = version.tags.get("system", ""), version.tags.get("seed", "")
        table.add_row(version.model, str(version.number), aliases, system, seed, *scores, registered)
    if not versions:
        say("no model is registered here")
        return
    console().print(table)


def show_model(arguments: argparse.Namespace) -> None:
    from subgraft.orchestration.tracking.model_registry import CARD, Registry

    with recording_server() as server:
        registry = Registry(server)
        version = registry.version(arguments.model)
        directory = registry.resolve(version.uri)
    facts = {
        "model": version.uri,
        "aliases": ", ".join(version.aliases) or "none",
        "registered": version.created.isoformat(timespec="seconds"),
        "run": version.run_id,
        "files": str(directory),
        **_head(directory),
        **dict(sorted(version.tags.items())),
    }
    width = max(map(len, facts))
    for name, value in facts.items():
        say(f"{name:{width}}  {value}")
    card = directory / CARD
    say(f"\n{card.read_text(encoding='utf-8')}" if card.is_file() else "\nIt was registered without a model card.")


def _head(directory: Path) -> dict[str, str]:
    """The labels of a model with a classifying head."""
    from subgraft.modeling.families import head_in
    from subgraft.modeling.hub import read_config

    head = head_in(read_config(directory)) if (directory / "config.json").is_file() else None
    return {} if head is None else {"head": str(head)}


def pull_model(arguments: argparse.Namespace) -> None:
    from subgraft.orchestration.tracking.model_registry import Registry

    with new_directory(arguments.out) as out, recording_server() as server:
        version = Registry(server).pull(arguments.model, out)
    say(f"{version.uri} written to {arguments.out}")


def promote_model(arguments: argparse.Namespace) -> int:
    from subgraft.orchestration.tracking.model_registry import SCHEME, Registry
    from subgraft.orchestration.tracking.promotion import Requirement, promote

    name = arguments.model.removeprefix(SCHEME)
    if "@" in name or "/" in name:
        raise UserError("a model's name was expected, without alias or version", where=arguments.model)
    requirement = Requirement(arguments.level, arguments.samples, arguments.seed)
    with recording_server() as server:
        verdict = promote(Registry(server), name, requirement)
    say(_outcome(name, verdict, requirement))
    return 0 if verdict.promoted or verdict.comparison is None else NOT_BETTER


def _outcome(name: str, verdict: Verdict, requirement: Requirement) -> str:
    """The result of a promotion, in one line."""
    from subgraft.evaluation.reporting.findings import verdict as verdict_of
    from subgraft.evaluation.reporting.numbers import interval, signed

    candidate, champion, comparison = verdict.candidate, verdict.champion, verdict.comparison
    if champion is None:
        return f"{name}: version {candidate.number} is the champion now; there was none to compare it with"
    if comparison is None:
        return f"{name}: version {candidate.number} is the champion already"
    outcome = "becomes the champion" if verdict.promoted else "does not become the champion"
    return (
        f"{name}: version {candidate.number} {outcome}: BLEU {signed(comparison.difference)} "
        f"{interval(comparison.interval)} against version {champion.number}, "
        f"{verdict_of(comparison, requirement.level)} "
        f"({comparison.sentences:,} test sentences, {requirement.samples:,} samples, seed {requirement.seed}, "
        f"level {requirement.level:g})"
    )
