"""subgraft generate, evaluate and predict: use a model, score what it wrote or predicts."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

import subgraft
from subgraft.base import json_io
from subgraft.base.errors import UserError
from subgraft.base.limits import MAX_BEAM_SIZE, MAX_SEQUENCE_LENGTH
from subgraft.base.security.terminal_escaping import say, write
from subgraft.config.settings_base import DecodingEngine
from subgraft.data.sources.labelled_files import LabelledFiles
from subgraft.data.tasks.labelled import LabelledFormat, Row
from subgraft.data.tasks.registry import TASKS
from subgraft.data.text import reading
from subgraft.interfaces.cli.arguments import (
    MODEL_HELP,
    Commands,
    add_field,
    add_json,
    add_languages,
    input_file,
    print_json,
    selected,
    standard_input,
    text_field,
    whole_number,
)

if TYPE_CHECKING:
    from subgraft.evaluation.metrics.significance import Interval
    from subgraft.training.understanding.input_forms import InputForm


# The formats of labelled files whose columns `predict` reads, by the file's ending.
_FORMATS: Mapping[str, LabelledFormat] = {
    "jsonl": "jsonl",
    "parquet": "parquet",
    "csv": "csv",
    "tsv": "tsv",
    "conll": "conll",
    "json": "squad",
}
# Options of a model's generation.
_SEARCH = ("languages", "beam", "batch_size")
PREDICT = (
    "Reads one input per line and prints one prediction per line. A line is a text; tabs separate two texts, a "
    "question and its passage, or a text or query and its choices or candidates. A file that ends in .csv, .tsv, "
    ".jsonl, .parquet, .conll or .json, and a data set, is read as `evaluate --labels` reads it; labels are ignored. "
    "Entities need columns."
)


def add_to(commands: Commands) -> None:
    _add_generate(commands)
    _add_evaluate(commands)
    _add_predict(commands)


def _add_generate(commands: Commands) -> None:
    generate = commands.add_parser("generate", help="generate text with a model")
    generate.add_argument("--model", required=True, help=f"{MODEL_HELP}, an export, or a GGUF")
    lines = "one sentence or prompt per line; default, and for -: standard input"
    inputs = generate.add_mutually_exclusive_group()
    inputs.add_argument("--input", type=input_file, metavar="FILE", help=lines)
    features = "safetensors file of the features that a model of `task: feature-conditional` reads"
    inputs.add_argument("--features", type=Path, metavar="FILE", help=features)
    limit = "limit of each output of a model without an encoder, besides the one that follows from its source or prompt"
    generate.add_argument("--max-tokens", type=whole_number(1), metavar="NUMBER", help=limit)
    turn = "put each line as a user's turn into the chat template of an instruct model, which answers it"
    generate.add_argument("--chat", action="store_true", help=turn)
    engine = "what decodes (default: that of an export or a GGUF; of a model, transformers)"
    generate.add_argument("--engine", choices=get_args(DecodingEngine), help=engine)
    _add_generation(generate)
    blocks = (
        "read blank lines as ends of documents, which an mBART translates in blocks of at most TOKENS (default 512)"
    )
    _add_documents(generate, blocks)
    generate.set_defaults(command=generate_text)


def _add_evaluate(commands: Commands) -> None:
    evaluate = commands.add_parser(
        "evaluate", help="compute BLEU, chrF, TER, ROUGE-L and METEOR, the metrics of labels, or bits of a text"
    )
    outputs = evaluate.add_mutually_exclusive_group(required=True)
    several = (
        "outputs, a line each; further files are tested against the first, with sacrebleu's intervals and p-values"
    )
    outputs.add_argument("--hypotheses", type=Path, nargs="+", metavar="FILE", help=several)
    outputs.add_argument("--model", help=f"{MODEL_HELP}, which translates --sources first")
    evaluate.add_argument("--sources", type=Path, metavar="FILE", help="input of --model")
    paired = "sacrebleu's test of several --hypotheses: paired bootstrap (default) or approximate randomization"
    evaluate.add_argument("--paired", choices=("bs", "ar"), help=paired)
    gold = evaluate.add_mutually_exclusive_group(required=True)
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
    evaluate.add_argument(
        "--baseline", metavar="MODEL", help="with --text: another model, to compare with on this text"
    )
    field = "with --text: the column of the text (default: text); with --labels as in label=stars, repeatable"
    add_field(evaluate, field)
    _add_generation(evaluate)
    tasks = [name for name, facts in TASKS.items() if facts.metrics]
    evaluate.add_argument("--task", choices=tasks, help="determines the metrics (default: translation)")
    language = "the target language (fr): selects METEOR's stemmer; zh is scored by characters"
    evaluate.add_argument("--language", default="", help=language)
    further = "an additional metric: ROUGE-1, ROUGE-2, CIDEr, or one of an installed package; repeatable"
    evaluate.add_argument("--metric", action="append", default=[], metavar="NAME", help=further)
    documents = "blank lines separate documents: d-BLEU, and s-BLEU where each has as many sentences as its reference"
    _add_documents(evaluate, f"{documents}; a model translates blocks of at most so many tokens (default 512)")
    add_json(evaluate)
    evaluate.set_defaults(command=evaluate_outputs)


def _add_predict(commands: Commands) -> None:
    predict = commands.add_parser(
        "predict", help="predict labels, tags, answers or ranks with a finetuned model", description=PREDICT
    )
    predict.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    predict.add_argument("--input", type=input_file, metavar="FILE", help="default, and for -: standard input")
    form = "lines of text, or a file with the columns of labelled files (default: by its ending; of others, lines)"
    predict.add_argument("--format", choices=("lines", *_FORMATS.values()), help=form)
    add_field(predict, "a column of such a file that has another name, as in text=review, repeatable")
    predict.add_argument("--json", action="store_true", help="print a JSON object a line, with probabilities or scores")
    add_languages(predict, "for models with language codes (default: those the model was made for)")
    predict.set_defaults(command=predict_lines)


def _add_generation(command: argparse.ArgumentParser) -> None:
    command.add_argument("--beam", type=whole_number(1, MAX_BEAM_SIZE), help="beam size (default 4; in llama.cpp 1)")
    command.add_argument("--batch-size", type=whole_number(1), help="sentences at a time (default 32)")
    add_languages(
        command,
        "for models with language codes, as in en-de or eng_Latn-deu_Latn (default: those the model was made for)",
    )


def _add_documents(command: argparse.ArgumentParser, about: str) -> None:
    command.add_argument(
        "--documents", type=whole_number(4, MAX_SEQUENCE_LENGTH), nargs="?", const=512, metavar="TOKENS", help=about
    )


def generate_text(arguments: argparse.Namespace) -> None:
    if arguments.documents is not None:
        _generate_documents(arguments)
        return
    inputs: Any = None
    if arguments.features is None:
        inputs = list(reading.lines(arguments.input) if arguments.input else standard_input())
    from subgraft.interfaces.api.outputs import (  # takes seconds to load; a mistake in the text is reported at once
        features_in,
        generate,
    )
    from subgraft.orchestration.execution.progress import counting

    inputs = features_in(arguments.features) if inputs is None else inputs
    with counting("generating") as progress:
        search = _search(arguments)
        options = {"max_tokens": arguments.max_tokens, "chat": arguments.chat, "engine": arguments.engine}
        outputs = generate(arguments.model, inputs, **search, **options, progress=progress)
    for line in outputs:
        write(line)


def _generate_documents(arguments: argparse.Namespace) -> None:
    """Print documents with blank lines between them, and without empty sentences, which would also be blank lines."""
    inapplicable = [name for name in ("features", "chat", "max_tokens", "engine") if getattr(arguments, name)]
    if inapplicable:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in inapplicable)
        raise UserError(f"these do not apply to --documents: {names}", where="--documents", hint="Leave them out.")
    lines = list(reading.lines(arguments.input) if arguments.input else standard_input())
    for number, document in enumerate(_translated_documents(arguments, lines)):
        for line in [""] * (number > 0) + [sentence for sentence in document if sentence.strip()]:
            write(line)


def _translated_documents(arguments: argparse.Namespace, lines: list[str]) -> list[list[str]]:
    from subgraft.interfaces.api.documents import documents_of, translate_documents
    from subgraft.orchestration.execution.progress import counting

    with counting("translating") as progress:
        search = {**_search(arguments), "block_tokens": arguments.documents}
        return translate_documents(arguments.model, documents_of(lines), **search, progress=progress)


def _search(arguments: argparse.Namespace) -> dict[str, Any]:
    return {name: value for name, value in selected(arguments, *_SEARCH).items() if value is not None}


def _refuse(arguments: argparse.Namespace, names: Sequence[str], why: str) -> None:
    """Raises UserError for an option that would have no effect."""
    present = [f"--{name.replace('_', '-')}" for name in names if getattr(arguments, name) not in (None, "", [])]
    if present:
        raise UserError(f"{why}: leave out {', '.join(present)}", where="evaluate")


def evaluate_outputs(arguments: argparse.Namespace) -> None:
    if arguments.text is not None:
        _evaluate_text(arguments)
        return
    _refuse(arguments, ("baseline",), "models are compared on --text")
    if len(arguments.hypotheses or ()) > 1:
        _evaluate_several(arguments)
        return
    _refuse(arguments, ("paired",), "only several --hypotheses are tested")
    arguments.hypotheses = arguments.hypotheses[0] if arguments.hypotheses else None
    if arguments.labels is not None:
        _evaluate_labels(arguments)
        return
    _refuse(arguments, ("field",), "only --text and --labels have columns")
    if arguments.model is None:
        _refuse(arguments, _SEARCH, "files are scored as they are")
    if arguments.documents is not None:
        _evaluate_documents(arguments)
        return
    from subgraft.evaluation.metrics.scores import check_parallel
    from subgraft.interfaces.api.scores import SACREBLEU, compare_outputs, package_metrics

    package_names = [
        metric.name for metric in package_metrics(arguments.metric)
    ]  # unknown ones, before anything is read
    if (arguments.model is None) != (arguments.sources is None) and not (package_names and arguments.model is None):
        raise UserError("a model is evaluated on --sources, and nothing else takes them", where="evaluate")
    references = list(reading.lines(arguments.references))
    texts: dict[str, list[str]] = {}
    for kind in ("sources", "hypotheses"):
        if path := vars(arguments)[kind]:
            texts[kind] = list(reading.lines(path))
            check_parallel(texts[kind], references, f"{path} and {arguments.references}", kind)
    sources = texts.get("sources", [])
    if arguments.model is not None:
        from subgraft.orchestration.execution.progress import counting

        with counting("translating") as progress:
            texts["hypotheses"] = subgraft.translate(arguments.model, sources, **_search(arguments), progress=progress)
    hypotheses = texts["hypotheses"]
    task = arguments.task or "translation"
    settings = {"language": arguments.language, "task": task, "metrics": arguments.metric}
    scores = subgraft.evaluate(hypotheses, references, sources=sources or None, **settings).scores
    shares = _language_shares(arguments, sources, references, hypotheses)
    intervals = {}
    if arguments.hypotheses and (shared := [name for name in SACREBLEU if any(name == score.name for score in scores)]):
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
    inapplicable = ("sources", "labels", "documents", "metric", "task", "field", *_SEARCH)
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

    kind = "hypotheses" if arguments.model is None else "sources"
    lines, references = (list(reading.lines(path)) for path in (vars(arguments)[kind], arguments.references))
    where = f"{vars(arguments)[kind]} and {arguments.references}"
    expected, documents = documents_of(references), documents_of(lines)
    check_parallel(documents, expected, where, "documents")
    outputs = documents if arguments.model is None else _translated_documents(arguments, lines)
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


def predict_lines(arguments: argparse.Namespace) -> None:
    from subgraft.data.text.dataset_files import is_dataset
    from subgraft.interfaces.api.predict import prediction_model  # takes seconds to load
    from subgraft.orchestration.execution.progress import counting

    model = prediction_model(arguments.model)
    path = arguments.input or Path("standard input")
    by_name = "parquet" if is_dataset(path) else _FORMATS.get(path.name.removesuffix(".gz").rpartition(".")[2], "lines")
    form: Any = arguments.format or by_name
    # A mistake in an input is reported before weights are read.
    if arguments.field and (form == "lines" or not arguments.input):
        raise UserError("lines have no columns", where="--field", hint="Leave it out, or give --input FILE.csv.")
    if form == "lines" or (form == "jsonl" and not arguments.input):
        lines = reading.lines(path) if arguments.input else standard_input()
        located = list(_inputs(lines, path, model.form, form))
    elif not arguments.input:
        raise UserError(f"{form} is read from a file", where="--format", hint="Give --input FILE.")
    else:
        located = list(_inputs_of_rows(_rows(path, form), model.form, form, dict(arguments.field)))
    inputs = [value for value, _ in located]
    with counting("predicting") as progress:
        predictor = model.predictor(arguments.languages)
        predictions = list(predictor.predict(inputs, progress=lambda done: progress(done, len(inputs), "inputs")))
    for prediction in predictions:
        write(json.dumps(prediction.facts, ensure_ascii=False) if arguments.json else prediction.text)
    truncated = [where for prediction, (_, where) in zip(predictions, located, strict=True) if prediction.truncated]
    if truncated:
        sys.stdout.flush()
        message = f"{len(truncated):,} of {len(inputs):,} inputs lost their end, too long for the model"
        say(f"{message}; the first is {truncated[0]}", to=sys.stderr)


# An input, and its location.
_Located: TypeAlias = tuple[Any, str]


def _inputs(lines: Iterable[str], path: Path, form: InputForm, written: str) -> Iterator[_Located]:
    if written == "jsonl":
        for number, record in enumerate(json_io.objects(lines, path), 1):
            yield form.of_value(record, f"{path}:{number}"), f"{path}:{number}"
        return
    for number, line in enumerate(lines, 1):
        yield form.of_line(line, f"{path}:{number}"), f"{path}:{number}"


def _rows(path: Path, written: LabelledFormat) -> Iterator[Row]:
    """The rows of a file, or of a data set of `datasets`."""
    from subgraft.data.sources.labelled_files import rows
    from subgraft.data.text.dataset_files import TEST, dataset_rows, is_dataset

    if is_dataset(path):
        return (Row(columns, where) for columns, where in dataset_rows(path, TEST))
    return rows(path, LabelledFiles(files={"test": str(path)}, format=written))


def _inputs_of_rows(
    rows: Iterable[Row], form: InputForm, written: LabelledFormat, named: Mapping[str, str]
) -> Iterator[_Located]:
    for number, row in enumerate(rows):
        columns = {"words": row["word"]} if written == "conll" else dict(row.columns)
        columns |= {"words" if role == "word" else role: row[name] for role, name in named.items()}
        try:
            yield form.of_value(columns, row.where), row.where
        except UserError as error:
            if number or written not in ("csv", "tsv"):
                raise
            hint = f"{error.hint} The first line names the columns: `--format lines` reads a file without them."
            raise UserError(error.what, where=row.where, hint=hint.strip()) from None
