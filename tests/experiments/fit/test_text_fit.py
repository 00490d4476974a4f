"""`subgraft fit MODEL --text FILE` as a user types it: all forms of text, the plan, models and recommendation."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Mapping
from math import ceil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import subgraft
from command_processes import ended
from published import CHECKPOINTS
from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.data.text.text_files import MAX_SEGMENT, TextFiles
from subgraft.experiments.fit.split import Documents, split
from subgraft.interfaces.api.model import generate
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle
from subgraft.training.objectives.causal import CausalSettings
from toys import english, english_tokenizer, german_tokenizer, marian, sentences

DOCUMENTS = [("Der erste Satz.", "Der zweite."), ("Ein anderer Text.",), ("Drei.", "Zeilen.", "Hier.")]
WORDS = "Zeichenkette Funktion Methode Klasse Puffer Ganzzahl Faden Steckdose"
FIT = ["fit", "model", "--text", "text.txt", "--out", "fitted", "--quick"]


def plain(place: Path) -> Path:
    path = place / "text.txt"
    path.write_text("\n\n".join("\n".join(document) for document in DOCUMENTS) + "\n", encoding="utf-8")
    return path


def gzipped(place: Path) -> Path:
    path = place / "text.gz"
    path.write_bytes(gzip.compress(plain(place).read_bytes()))
    return path


def json_lines(place: Path) -> Path:
    path = place / "text.jsonl.gz"
    rows = (json.dumps({"id": 1, "text": "\n".join(document)}) + "\n" for document in DOCUMENTS)
    path.write_bytes(gzip.compress("".join(rows).encode()))
    return path


def parquet(place: Path) -> Path:
    path = place / "text.parquet"
    pd.DataFrame({"id": [1, 2, 3], "text": ["\n".join(document) for document in DOCUMENTS]}).to_parquet(path)
    return path


def folder(place: Path) -> Path:
    path = place / "folder"
    (path / "inner").mkdir(parents=True)
    (path / "a.txt").write_text("\n".join(DOCUMENTS[0]), encoding="utf-8")
    (path / "b.jsonl").write_text(json.dumps({"text": "\n".join(DOCUMENTS[1])}), encoding="utf-8")
    (path / "inner" / "c.md").write_text("\n".join(DOCUMENTS[2]), encoding="utf-8")
    (path / "picture.png").write_bytes(b"\x89PNG")
    return path


@pytest.mark.parametrize("form", [plain, gzipped, json_lines, parquet, folder])
def test_documents_are_the_same_in_every_form(form: Callable[[Path], Path], tmp_path: Path) -> None:
    assert list(TextFiles((form(tmp_path),)).documents()) == DOCUMENTS


def test_long_lines_are_cut_at_spaces_and_nothing_is_lost(tmp_path: Path) -> None:
    line = " ".join(sentences(WORDS, ["", "n"], 200, 5))
    (tmp_path / "text.txt").write_text(line + "\n" + "x" * (2 * MAX_SEGMENT + 1), encoding="utf-8")
    ((*segments, first, second, third),) = TextFiles((tmp_path / "text.txt",)).documents()
    assert " ".join(segments) == line and max(map(len, segments)) <= MAX_SEGMENT
    assert first + second + third == "x" * (2 * MAX_SEGMENT + 1)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.jsonl", '{"body": "a"}\n', "a.jsonl:1: there is no column 'text'\n  Name the column of the text by"),
        ("a.jsonl", '{"text": 3}\n', "a.jsonl:1: the column 'text' contains no text"),
        ("a.jsonl", "no JSON\n", "a.jsonl:1: not JSON"),
        ("a.jsonl", "[1]\n", "a.jsonl:1: not a row with columns"),
        ("a.parquet", "no Parquet", "a.parquet: not a readable Parquet file"),
        ("a.png", "", "the folder has no file of text"),
    ],
)
def test_text_that_cannot_be_read_is_refused(name: str, content: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UserError) as refused:
        list(TextFiles((tmp_path if name == "a.png" else tmp_path / name,)).documents())
    assert complaint in str(refused.value)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two texts, in which a model is to be made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    for name, lines in (("text.txt", sentences(WORDS, ["", "n", "en"], 1500, 5)), ("other.txt", english(400, 5))):
        numbered = (f"{line} {number % 97}\n" for number, line in enumerate(lines))
        (tmp_path / name).write_text("".join(numbered), encoding="utf-8")
    return tmp_path


def _rates(experiment: Experiment, name: str) -> tuple[float | None, float | None]:
    """The learning rates of a system's old and new embeddings, where they are not the body's and the old ones'."""
    (system,) = (system for system in experiment.systems if system.name == name)
    settings = system.finetuning(experiment.finetune)
    return settings.embedding_learning_rate, settings.new_embedding_learning_rate


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Llama-2-7b", "bpe"),
        ("Qwen2.5-0.5B", "byte-level-bpe"),
        pytest.param("gemma-2b", "bpe", marks=pytest.mark.slow),
        pytest.param("gpt2", "byte-level-bpe", marks=pytest.mark.slow),
    ],
)
def test_a_plan_compares_vocabularies_and_trains_nothing(
    name: str, kind: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    CHECKPOINTS[name].publish(here / "model")
    assert main([*FIT, "--other", "other.txt", "--only-this-text", "--plan"]) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    for message in ("lines to train on", "other text: 400 lines", "What the text would take", "extended:", "replaced:"):
        assert message in said, said
    experiment = load(here / "fitted" / "fit.yaml", Experiment)
    tied = name != "Llama-2-7b"
    names = [system.name for system in experiment.systems]
    assert names == ["old", *(["untied"] if tied else []), "extended", "replaced"]
    (pretrained,) = experiment.upstream.objectives
    assert isinstance(pretrained, CausalSettings) and ("texts begin" in said) == (name in ("Llama-2-7b", "gemma-2b"))
    assert f"{pretrained.separator} token (bits" in said or pretrained.separator == "eos"
    assert experiment.downstream.vocabulary.kind == kind and experiment.downstream.vocabulary.mode == "extend"
    assert experiment.task == "continuation" and experiment.evaluation.upstream_sentences == 200
    old, *_, extended, replaced = experiment.systems
    assert extended.initialiser == "fitted" and extended.untie == tied and not old.untie
    untied = "untied" if tied else "old"
    assert _rates(experiment, "old") == _rates(experiment, untied) == (6e-5 if tied else None, None)
    assert _rates(experiment, "extended") == _rates(experiment, "replaced") == (6e-5 if tied else None, 1e-3)
    assert main([*FIT, "--out", "alone", "--plan"]) == 0
    alone = load(here / "alone" / "fit.yaml", Experiment)
    assert _rates(alone, "extended") == (2e-4 if tied else None, 1e-3)
    assert _rates(alone, untied) == (2e-4 if tied else None, None)
    assert replaced.initialiser == "mean" and experiment.finetune.label_smoothing == 0
    texts = {
        name: set((here / "fitted" / "text" / "task" / f"{name}.und").read_text().splitlines())
        for name in ("train", "dev", "test")
    }
    assert not texts["train"] & (texts["dev"] | texts["test"]) and min(map(len, texts.values())) >= 50
    assert not (here / "home" / "store").exists() and not (here / "fitted" / "model").exists()


@pytest.mark.slow
def test_new_subwords_are_frequent_in_what_is_read(here: Path) -> None:
    CHECKPOINTS["gpt2"].publish(here / "model")
    lines = sentences(WORDS, ["", "n", "en"], 9000, 5)
    (here / "text.txt").write_text("".join(f"{line} {number}\n" for number, line in enumerate(lines)))

    def planned(*arguments: str) -> tuple[int, int]:
        out = f"fitted{'-'.join(arguments)}"
        assert main(["fit", "model", "--text", "text.txt", "--out", out, "--plan", *arguments]) == 0
        vocabulary = load(here / out / "fit.yaml", Experiment).downstream.vocabulary
        assert vocabulary.min_count is not None
        return vocabulary.min_count, vocabulary.size

    whole_text = planned()
    characters = sum(map(len, (here / "fitted/text/task/train.und").read_text().splitlines()))
    count, size = planned("--characters", "20000")
    assert count == ceil(20 * characters / 20_000) > whole_text[0] == 100
    assert 50 <= size <= whole_text[1]


def test_hours_decide_how_much_is_read_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    CHECKPOINTS["gpt2"].publish(here / "model")
    assert main([*FIT, "--plan", "--hours", "1e-6"]) == 2
    said = capsys.readouterr().err
    assert "1e-06 hours are too few for this fit" in said and not (here / "fitted").exists()
    least = re.search(r"Give ([\d.e-]+) or more: starts, dev scores and tests take [\d.]+ (?:s|min|h)\b", said)
    assert least is not None and float(least[1]) > 10 / 3600, "starts count"
    enough = 2 * float(least[1])  # another measurement on a busy machine differs

    def planned(hours: str) -> tuple[int, int]:
        assert main([*FIT, "--plan", "--hours", hours]) == 0
        finetune = load(here / "fitted" / "fit.yaml", Experiment).finetune
        assert finetune.max_steps is not None
        return finetune.max_steps, finetune.batch_size

    first = planned(f"{enough:g}")
    text = sum(len(line) for line in (here / "fitted/text/task/train.und").read_text("utf-8").splitlines())
    assert first[0] >= 10 and first[0] * first[1] <= 2 * text
    decided = json.loads((here / "fitted" / "fit.json").read_text("utf-8"))["characters read"]
    assert planned(f"{enough:g}") == first  # another measurement of the pace changes nothing
    assert json.loads((here / "fitted" / "fit.json").read_text("utf-8"))["characters read"] == decided
    assert main([*FIT, "--plan", "--hours", f"{2 * enough:g}"]) == 2 and "with another hours" in capsys.readouterr().err
    with pytest.raises(UserError, match="another amount of training"):
        subgraft.fit("model", text=here / "text.txt", out="other", hours=1.0, characters=40_000, progress=False)


def test_near_copies_of_training_lines_are_in_neither_dev_nor_test() -> None:
    lines = sentences(WORDS, ["", "n", "en"], 1200, 5)
    long = [" ".join(lines[number : number + 4]) for number in range(0, 1200, 4)] * 2
    copies = [f"{line} {number}" for number, line in enumerate(long)]  # each once more, with another end
    text = split(
        Documents((tuple((line, line) for line in [*copies, *lines]),)), Cleaning(max_characters=None), "lines"
    )
    held_out = {line for line, _ in (*text.dev, *text.test)}
    train = {line.rpartition(" ")[0] for line, _ in text.train}
    assert text.near_copies > 10 and "dropped from dev and test" in text.summary
    assert not {line for line in held_out if line.rpartition(" ")[0] in train and len(line.split()) > 8}


@pytest.mark.parametrize(
    ("model", "arguments", "complaint"),
    [
        ("gpt2", ["--text", "few.txt"], "10 lines: a fit needs"),
        ("gpt2", ["--text", "plain.txt"], "0 subwords that the model lacks occur 100 times"),
        ("gpt2", ["--text", "names.txt"], "an extension has 50 or more"),
        ("gpt2", ["--text", "text.txt", "--other", "few.txt"], "10 lines of other text are too few"),
        ("gpt2", ["--text", "text.txt", "--languages", "de-en"], "the text is in one language"),
        ("gpt2", [], "a fit needs the text of a task"),
        ("gpt2", ["--labels", "text.txt", "--other", "other.txt"], "applies to text without pairs or labels"),
        ("marian", ["--text", "text.txt"], "this model does not continue text"),
    ],
)
def test_what_cannot_be_fitted_is_refused_and_nothing_is_written(
    model: str, arguments: list[str], complaint: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if model == "marian":
        Bundle(marian(), english_tokenizer(), german_tokenizer()).save(here / "model")
    else:
        CHECKPOINTS[model].publish(here / "model")
    (here / "few.txt").write_text("Eine Zeile.\n" * 10)
    (here / "plain.txt").write_text("".join(f"{number}\n" for number in range(1000)))
    (here / "names.txt").write_text("".join(f"{number} Xylophonquist\n" for number in range(1000)))
    assert main(["fit", "model", *arguments, "--out", "fitted", "--quick"]) == 2
    assert complaint in capsys.readouterr().err and not (here / "fitted").exists()


@pytest.mark.ray
def test_a_fit_ends_in_a_model_that_continues_text(here: Path) -> None:
    CHECKPOINTS["gpt2"].publish(here / "model")
    arguments = [*FIT, "--other", "other.txt", "--only-this-text", "--characters", "40000"]
    code, said = ended(here, arguments)
    assert code == 0, said
    assert "Take " in said or "Keep the old vocabulary" in said, said
    assert "subgraft generate --model fitted/model --input FILE" in said
    report = (here / "fitted" / "report" / "report.md").read_text(encoding="utf-8")
    assert "## Forgetting" in report and "Bits per character of the test text" in report
    assert len(Bundle.load(here / "fitted" / "model").decoder) > 0
    code, written = ended(here, ["generate", "--model", "fitted/model", "--input", "fitted/text/task/dev.und"])
    assert code == 0 and written.strip()
    again = subgraft.fit(
        "model",
        text=here / "text.txt",
        other=[here / "other.txt"],
        out="fitted",
        only_this_text=True,
        characters=40_000,
        quick=True,
        progress=False,
    )
    rows: Mapping[str, Any] = again.frame().to_dict("index")
    assert [name for name in rows if name != "untied"] == ["old", "extended", "replaced"] and again.advised in rows
    assert all(row["bits per character"] > 0 < row["bits per character of other text"] for row in rows.values())
    assert rows["extended"]["tokens per line"] < rows["old"]["tokens per line"]
    frame = pd.DataFrame({"text": (here / "text.txt").read_text(encoding="utf-8").splitlines()})
    with pytest.raises(UserError, match="there is no column 'body'"):
        subgraft.fit("model", text=frame, field="body", out="other", progress=False)


def conversations(place: Path, count: int = 700) -> Path:
    """Questions and answers in the words of the text, a few with two answers, one without any."""
    path = place / "chats.jsonl"
    lines = sentences(WORDS, ["", "n", "en"], 4 * count, 5)
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            roles = ["user", "assistant"] * (1 + (number % 7 == 0))
            turns = [{"role": role, "content": lines.pop()} for role in roles]
            file.write(json.dumps({"messages": turns[:1] if number == 3 else turns}) + "\n")
    return path


def test_conversations_are_held_out_whole(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    CHECKPOINTS["Qwen2.5-0.5B-Instruct"].publish(here / "model")
    conversations(here)
    arguments = [
        "fit",
        "model",
        "--chat",
        "chats.jsonl",
        "--out",
        "fitted",
        "--quick",
        "--plan",
        "--other",
        "other.txt",
    ]
    assert main(arguments) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert "conversations to train on" in said and "left out: 1 conversations without an answer" in said
    assert "whole conversations" in said
    experiment = load(here / "fitted" / "fit.yaml", Experiment)
    assert experiment.task == "chat" and experiment.finetuned_on.kind == "chat"
    assert experiment.evaluation.test_sentences == 50 and experiment.evaluation.upstream_sentences == 200
    read = {}
    for split_name in ("train", "dev", "test"):
        path = here / "fitted" / "text" / "task" / f"{split_name}.jsonl"
        read[split_name] = [json.loads(line)["messages"] for line in path.read_text("utf-8").splitlines()]
    original = [json.loads(line)["messages"] for line in (here / "chats.jsonl").read_text("utf-8").splitlines()]
    assert all(turns in original for part in read.values() for turns in part)
    assert min(map(len, read.values())) >= 50 and sum(map(len, read.values())) < len(original)


@pytest.mark.parametrize(
    ("model", "options", "complaint"),
    [
        ("gpt2", {"chat": ["chats.jsonl"]}, "no chat template"),
        ("Qwen2.5-0.5B-Instruct", {"chat": ["text.txt"]}, "not JSON"),
        ("Qwen2.5-0.5B-Instruct", {"chat": ["chats.jsonl"], "text": ["text.txt"]}, "is fitted in place of `text`"),
        ("Qwen2.5-0.5B-Instruct", {"chat": ["few.jsonl"]}, "19 conversations: a fit needs"),
    ],
)
def test_conversations_that_cannot_be_fitted_are_refused(
    model: str, options: Mapping[str, Any], complaint: str, here: Path
) -> None:
    CHECKPOINTS[model].publish(here / "model")
    conversations(here, 20).rename(here / "few.jsonl")
    conversations(here)
    with pytest.raises(UserError, match=complaint):
        subgraft.fit("model", **options, out="fitted", progress=False)
    assert not (here / "fitted").exists()


@pytest.mark.ray
@pytest.mark.slow
def test_an_instruct_model_is_fitted_to_conversations(here: Path) -> None:
    CHECKPOINTS["Qwen2.5-0.5B-Instruct"].publish(here / "model")
    rows = [json.loads(line) for line in conversations(here).read_text("utf-8").splitlines()]
    fitted = subgraft.fit(
        "model", chat=pd.DataFrame(rows), other=[here / "other.txt"], out="fitted", quick=True, progress=False
    )
    systems: Mapping[str, Any] = fitted.frame().to_dict("index")
    assert [name for name in systems if name != "untied"] == ["old", "extended"]
    assert all(row["bits per character"] > 0 < row["bits per character of other text"] for row in systems.values())
    report = (here / "fitted" / "report" / "report.md").read_text(encoding="utf-8")
    assert "## Forgetting" in report and "before the last answer" in report
    if fitted.advised is not None:
        assert generate(fitted.load(), ["Zeichenkette?"], chat=True)
