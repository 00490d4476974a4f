"""subgraft evaluate: metrics of outputs, of predicted labels and of documents, and bits of a text."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import subgraft
from subgraft.base.errors import UserError
from subgraft.base.security.terminal_escaping import say
from subgraft.data.tasks.registry import TASKS
from subgraft.data.text import reading
from subgraft.interfaces.cli.arguments import MODEL_HELP, Commands, add_field, add_json, print_json, text_field
from subgraft.interfaces.cli.generate import SEARCH, add_documents, add_generation, search_options, translated_documents

if TYPE_CHECKING:
    from subgraft.evaluation.metrics.significance import Interval


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "evaluate", help="compute BLEU, chrF, TER, ROUGE-L and METEOR, the metrics of labels, or bits of a text"
    )
    outputs = parser.add_mutually_exclusive_group(required=True)
    several = (
        "outputs, a line each; further files are tested against the first, with sacrebleu's intervals and p-values"
    )
    outputs.add_argument("--hypotheses", type=Path, nargs="+", metavar="FILE", help=several)
    outputs.add_argument("--model", help=f"{MODEL_HELP}, which translates --sources first")
    parser.add_argument("--sources", type=Path, metavar="FILE", help="input of --model")
    paired = "sacrebleu's test of several --hypotheses: paired bootstrap (default) or approximate randomization"
    parser.add_argument("--paired", choices=("bs", "ar"), help=paired)
    gold = parser.add_mutually_exclusive_group(required=True)
    gold.add_argument("--references", type=Path, metavar="FILE")
    labels = (
        "labelled examples (CSV, TSV, JSON lines, Parquet, CoNLL, or a data set): score --model by its task's metrics, "
        "with 95 %% intervals"
    )
    gold.add_argument("--labels", type=Path, metavar="FILE", help=labels)
    text = (
        "files or folders of text (lines, JSON lines, CSV, TSV, Parquet), or a data set: bits per character and byte "
        "of a language model"
    )
    gold.add_argument("--text", type=Path, nargs="+", metavar="FILE", help=text)
    parser.add_argument("--baseline", metavar="MODEL", help="with --text: another model, to compare with on this text")
    field = "with --text: the column of the text (default: text); with --labels as in label=stars, repeatable"
    add_field(parser, field)
    add_generation(parser)
    tasks = [name for name, facts in TASKS.items() if facts.metrics]
    parser.add_argument("--task", choices=tasks, help="determines the metrics (default: translation)")
    language = "the target language (fr): selects METEOR's stemmer; zh is scored by characters"
    parser.add_argument("--language", default="", help=language)
    further = "an additional metric: ROUGE-1, ROUGE-2, CIDEr, or one of an installed package; repeatable"
    parser.add_argument("--metric", action="append", default=[], metavar="NAME", help=further)
    documents = "blank lines separate documents: d-BLEU, and s-BLEU where each has as many sentences as its reference"
    add_documents(parser, f"{documents}; a model translates blocks of at most so many tokens (default 512)")
    add_json(parser)
    parser.set_defaults(command=evaluate)


def _refuse(arguments: argparse.Namespace, names: Sequence[str], why: str) -> None:
    """Raises UserError for an option that would have no effect."""
    present = [f"--{name.replace('_', '-')}" for name in names if getattr(arguments, name) not in (None, "", [])]
    if present:
        raise UserError(f"{why}: leave out {', '.join(present)}", where="evaluate")


def evaluate(arguments: argparse.Namespace) -> None:
    """Score what the options name: a text, several outputs, labels, documents, or one output."""
    if arguments.text is not None:
        _evaluate_text(arguments)
        return
    _refuse(arguments, ("baseline",), "models are compared on --text")
    if len(arguments.hypotheses or ()) > 1:
        _evaluate_several(arguments)
        return
    _refuse(arguments, ("paired",), "only several --hypotheses are tested")
    if arguments.labels is not None:
        _evaluate_labels(arguments)
        return
    _refuse(arguments, ("field",), "only --text and --labels have columns")
    if arguments.model is None:
        _refuse(arguments, SEARCH, "files are scored as they are")
    if arguments.documents is not None:
        _evaluate_documents(arguments)
    else:
        _evaluate_outputs(arguments)


def _evaluate_outputs(arguments: argparse.Namespace) -> None:
    """Score one file of outputs, or what the model writes for --sources."""
    from subgraft.evaluation.metrics.scores import check_parallel
    from subgraft.interfaces.api.scores import SACREBLEU, compare_outputs, package_metrics

    # Refuses unknown ones before anything is read.
    package_names = [metric.name for metric in package_metrics(arguments.metric)]
    if (arguments.model is None) != (arguments.sources is None) and not (package_names and arguments.model is None):
        raise UserError("a model is evaluated on --sources, and nothing else takes them", where="evaluate")
    references = list(reading.lines(arguments.references))

    def parallel(path: Path, kind: str) -> list[str]:
        lines = list(reading.lines(path))
        check_parallel(lines, references, f"{path} and {arguments.references}", kind)
        return lines

    sources = parallel(arguments.sources, "sources") if arguments.sources else []
    if arguments.model is None:
        hypotheses = parallel(arguments.hypotheses[0], "hypotheses")
    else:
        from subgraft.orchestration.execution.progress import counting

        with counting("translating") as progress:
            search = search_options(arguments)
            hypotheses = subgraft.translate(arguments.model, sources, **search, progress=progress)
    settings = {"language": arguments.language, "task": arguments.task or "translation", "metrics": arguments.metric}
    scores = subgraft.evaluate(hypotheses, references, sources=sources or None, **settings).scores
    shares = _language_shares(arguments, sources, references, hypotheses)
    intervals = {}
    shared = [score.name for score in scores if score.name in SACREBLEU]
    if arguments.model is None and shared:
        tested = compare_outputs({"": hypotheses}, references, language=arguments.language, metrics=shared)
        intervals = {each.metric: each.interval for each in tested}
    if arguments.json:
        listed = [vars(score) | (vars(intervals[score.name]) if score.name in intervals else {}) for score in scores]
        print_json(sentences=len(references), scores=listed, **({"output_language": shares} if shares else {}))
        return
    for score in scores:
        decimals = 4 if score.name in package_names else 2
        interval = f"\t95 %{_interval(intervals[score.name])}" if score.name in intervals else ""
        say(f"{score.name}\t{score.value:.{decimals}f}\t{score.signature}{interval}")
    _say_languages(shares)


def _interval(interval: Interval) -> str:
    return f" [{interval.low:.2f}, {interval.high:.2f}]"


def _evaluate_several(arguments: argparse.Namespace) -> None:
    """Score files of outputs, each against the first."""
    inapplicable = ("sources", "labels", "documents", "metric", "task", "field", *SEARCH)
    _refuse(arguments, inapplicable, "several --hypotheses are scored by sacrebleu's metrics alone")
    from subgraft.evaluation.metrics.scores import check_parallel
    from subgraft.evaluation.reporting.numbers import equals
    from subgraft.interfaces.api.scores import compare_outputs

    references = list(reading.lines(arguments.references))
    outputs = {str(path): list(reading.lines(path)) for path in arguments.hypotheses}
    if len(outputs) < len(arguments.hypotheses):
        raise UserError("a file is there twice", where="--hypotheses")
    for path, lines in outputs.items():
        check_parallel(lines, references, f"{path} and {arguments.references}")
    tested = compare_outputs(outputs, references, language=arguments.language, test=arguments.paired or "bs")
    if arguments.json:
        print_json(sentences=len(references), baseline=str(arguments.hypotheses[0]), systems=tested)
        return
    for metric in dict.fromkeys(each.metric for each in tested):
        rows = [each for each in tested if each.metric == metric]
        say(f"{metric}\t{rows[0].signature}")
        for each in rows:
            p_value = "baseline" if each.p_value is None else f"p {equals(each.p_value)}"
            say(f"  {each.value:.2f}{_interval(each.interval)}\t{p_value}\t{each.name}")


def _language_shares(
    arguments: argparse.Namespace, sources: list[str], references: list[str], hypotheses: list[str]
) -> dict[str, float]:
    """The share of a model's outputs in each of its two languages; nothing where --languages does not name them."""
    from subgraft.evaluation.metrics.untranslated import LanguageIdentifier

    pair, texts = arguments.languages, (sources, references)
    if arguments.model is None or pair is None or pair.source == pair.target:
        return {}
    if not all(any(map(str.strip, lines)) for lines in texts):
        return {}
    identify = LanguageIdentifier(dict(zip((pair.source, pair.target), texts, strict=True)))
    return identify.shares(hypotheses)


def _say_languages(shares: dict[str, float]) -> None:
    if shares:
        listed = ", ".join(f"{100 * share:.0f} % {language}" for language, share in shares.items())
        say(f"outputs in\t{listed}\tidentified by character n-grams of sources and references")


def _evaluate_documents(arguments: argparse.Namespace) -> None:
    if (arguments.model is None) != (arguments.sources is None):
        raise UserError("a model is evaluated on --sources, and nothing else takes them", where="evaluate")
    _refuse(arguments, ("metric", "task"), "documents are scored by BLEU alone")
    from subgraft.evaluation.metrics.document_bleu import unaligned
    from subgraft.evaluation.metrics.scores import check_parallel
    from subgraft.interfaces.api.documents import documents_of, evaluate_documents

    path = arguments.hypotheses[0] if arguments.model is None else arguments.sources
    lines, references = (list(reading.lines(each)) for each in (path, arguments.references))
    expected, documents = documents_of(references), documents_of(lines)
    check_parallel(documents, expected, f"{path} and {arguments.references}", "documents")
    outputs = documents if arguments.model is None else translated_documents(arguments, lines)
    scores = evaluate_documents(outputs, expected, language=arguments.language).scores
    differing = unaligned(outputs, expected)
    shares = _language_shares(arguments, *(list(chain.from_iterable(each)) for each in (documents, expected, outputs)))
    if arguments.json:
        languages = {"output_language": shares} if shares else {}
        print_json(documents=len(expected), documents_of_other_lengths=len(differing), scores=scores, **languages)
        return
    for score in scores:
        say(f"{score.name}\t{score.value:.2f}\t{score.signature}")
    _say_languages(shares)
    if differing:
        share = f"{len(differing)} of {len(expected)} documents"
        say(f"no s-BLEU: {share} have more or fewer sentences than their references")


def _evaluate_labels(arguments: argparse.Namespace) -> None:
    if arguments.model is None or arguments.sources is not None:
        raise UserError("labels are predicted by --model, and nothing else is read", where="evaluate")
    inapplicable = ("task", "metric", "language", "documents", "beam", "batch_size")
    _refuse(arguments, inapplicable, "the model's task has its own metrics, and nothing is generated")
    from subgraft.interfaces.api.label_scores import evaluate_labels
    from subgraft.orchestration.execution.progress import counting

    with counting("predicting") as progress:
        options = {"languages": arguments.languages, "field": dict(arguments.field)}
        result = evaluate_labels(arguments.model, arguments.labels, **options, progress=progress)
    if arguments.json:
        print_json(**vars(result))
        return
    for score in result.scores:
        say(f"{score.name}\t{score.value:.2f} [{score.low:.2f}, {score.high:.2f}]\t{score.signature}")
    say(f"examples\t{result.remark}")


def _evaluate_text(arguments: argparse.Namespace) -> None:
    if arguments.model is None or arguments.sources is not None:
        raise UserError("bits of a text are those of --model, and nothing else is read", where="evaluate")
    _refuse(
        arguments, ("task", "metric", "language", "documents", "beam", "batch_size", "languages"), "nothing is written"
    )
    from subgraft.interfaces.api.text_scores import compare_on_text, measure_text
    from subgraft.orchestration.execution.progress import counting

    options = {"field": text_field(arguments) or "text"}
    with counting("reading") as progress:
        if arguments.baseline is None:
            result = measure_text(arguments.model, arguments.text, **options, progress=progress)
            compared = None
        else:
            compared = compare_on_text(
                arguments.model, arguments.baseline, arguments.text, **options, progress=progress
            )
            result = compared.model
    if arguments.json:
        print_json(**vars(compared or result))
        return
    low, high = result.interval.low, result.interval.high
    say(f"bits per character\t{result.bits_per_character:.4f} [{low:.4f}, {high:.4f}]")
    say(f"bits per byte\t{result.bits_per_byte:.4f}")
    say(f"tokens per line\t{result.tokens_per_line:.1f}")
    long = f"; {result.windowed:,} in overlapping windows, as they exceed the context" if result.windowed else ""
    say(f"lines\t{result.lines:,}, each by itself, its end included{long}")
    if compared is not None:
        low, high = compared.interval.low, compared.interval.high
        baseline = compared.baseline
        say(f"baseline\t{baseline.bits_per_character:.4f}, {baseline.tokens_per_line:.1f} tokens per line")
        say(f"difference\t{compared.difference:+.4f} [{low:+.4f}, {high:+.4f}], p = {compared.p_value:.3f}")
