"""`subgraft fit` as a user types it: from a model and two files to the advised model, stopped, and run again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from command_processes import ended, started
from subgraft.config.corpora import Languages
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.tokenizers import write_languages
from subgraft.orchestration.store.record import verify_artifact
from toys import english, english_tokenizer, german, german_tokenizer, marian, sentences

PAIRS = 400
FIT = ["fit", "model", "--pairs", "text.en", "text.de", "--languages", "en-de", "--out", "fitted", "--quick"]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with a model that nobody has trained, and two files of pairs."""
    marian().save_pretrained(tmp_path / "model")
    english_tokenizer().save(tmp_path / "model" / "encoder")
    german_tokenizer().save(tmp_path / "model" / "decoder")
    for name, lines in (("text.en", english(PAIRS, 5)), ("text.de", german(PAIRS, 5))):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def require_finished(folder: Path, said: str) -> None:
    """That the folder has all that a fit promises, and that it can be used."""
    out = folder / "fitted"
    assert "Keep the old vocabulary" in said or "Take own, which scores better than old" in said, said
    record = verify_artifact(out / "model")
    assert record.stage == "finetune" and f"fitted/model ({record.name.split()[1]}, seed 1" in said
    assert (out / "report" / "report.html").is_file()
    assert "encoder" in Bundle.load(out / "model").tokenizers
    code, translated = ended(folder, ["generate", "--model", "fitted/model", "--input", "fitted/text/dev.en"])
    assert code == 0 and len(translated.splitlines()) >= len((out / "text" / "dev.en").read_text().splitlines())


@pytest.fixture
def here(files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """For commands in this process."""
    monkeypatch.chdir(files)
    monkeypatch.setenv("SUBGRAFT_HOME", str(files / "home"))
    return files


def test_a_plan_measures_and_trains_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FIT, "--plan"]) == 0
    said = capsys.readouterr().out
    for message in (
        "400 pairs, en to de: 300 to train on, 50 dev, 50 test",
        "tokens of the model's vocabulary",
        "On tasks with a similar gap: where embeddings are trained, `mean` is recommended",
        "10 steps, 0 of them done",
    ):
        assert message in said, said
    experiment = load(here / "fitted" / "fit.yaml", Experiment)
    assert [system.name for system in experiment.systems] == ["old", "own"]
    assert experiment.sides == ("encoder", "decoder") and experiment.downstream.shared
    assert (experiment.finetune.max_length, experiment.upstream.corpus) == (40, None)
    assert not (here / "home" / "store").exists() and not (here / "fitted" / "model").exists()


def test_few_pairs_with_a_gap_start_with_vocadt_in_sequences_of_the_model_s_length(here: Path) -> None:
    for name, endings in (("text.en", ["", "ing", "ed"]), ("text.de", ["", "en", "t"])):
        lines = sentences("object buffer string tuple integer thread socket", endings, 1800, 5)
        (here / name).write_text("".join(f"{line} {number}\n" for number, line in enumerate(lines)))
    assert main([*FIT, "--plan"]) == 0
    experiment = load(here / "fitted" / "fit.yaml", Experiment)
    assert experiment.systems[1].initialiser == "vocadt" and experiment.vocadt_training is not None
    assert experiment.vocadt_training.max_length == experiment.finetune.max_length == 40


def test_text_without_translations_is_counted_and_used(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held_out = (here / "text.de").read_text().splitlines()
    more = [*german(300, 9), *held_out, "", "zu kurz und doch lang genug"]
    (here / "more.de").write_text("".join(f"{line}\n" for line in more))
    assert main([*FIT, "--plan", "--text", "more.de"]) == 0
    said = capsys.readouterr().out
    assert (
        "text in addition to the pairs: " in said
        and "in dev or test" in said
        and "in the task's training pairs" in said
    )
    experiment = load(here / "fitted" / "fit.yaml", Experiment)
    assert experiment.downstream.text is not None and experiment.downstream.text.target == (str(here / "more.de"),)
    assert len({system.text for system in experiment.systems}) == 1, "the old vocabulary has the same text"
    assert main([*FIT, "--plan"]) == 2 and "another text" in capsys.readouterr().err
    (here / "more.de").write_text("\n".join(held_out))
    assert main([*FIT, "--out", "other", "--text", "more.de"]) == 2
    assert "--text: nothing is left of the text" in capsys.readouterr().err and not (here / "other").exists()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"text.de": "eins\n"}, "text.en has 400 lines and text.de 1"),
        ({"text.en": "a b\n" * 40, "text.de": "a b c\n" * 40}, "40 pairs: a fit needs 300 or more"),
        ({"model/config.json": "{}"}, "not a model directory"),
        ({"fitted": "a file"}, "fitted: a folder was expected"),
        ({"fitted/notes": "mine"}, "fitted: is not empty, and no fit of a model"),
    ],
)
def test_a_mistake_gets_one_message_and_nothing_is_written(
    here: Path, capsys: pytest.CaptureFixture[str], change: dict[str, str], complaint: str
) -> None:
    for name, text in change.items():
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text(text)
    before = sorted(here.rglob("*"))
    assert main(FIT) == 2
    assert complaint in capsys.readouterr().err
    assert sorted(here.rglob("*")) == before


def test_a_fit_that_is_refused_after_its_files_are_written_leaves_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = here / "model" / "model.safetensors"  # read only when the experiment is there
    tensors = load_file(weights)
    save_file({name: torch.full_like(tensor, torch.inf) for name, tensor in tensors.items()}, weights, {"format": "pt"})
    (here / "empty").mkdir()
    before = sorted(here.rglob("*"))
    for out in ("fitted", "empty"):
        assert main([*FIT, "--out", out, "--plan"]) == 2
        said, refusal = capsys.readouterr()
        assert "Plan" in said and "the weights cannot be used" in refusal
    assert sorted(here.rglob("*")) == before


def test_exchanged_and_equal_files_are_noticed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exchanged = "the texts fit the model the other way round"
    assert main([*FIT, "--plan"]) == 0
    assert exchanged not in capsys.readouterr().out
    command = ["fit", "model", "--languages", "en-de", "--quick", "--plan", "--pairs"]
    assert main([*command, "text.de", "text.en", "--out", "other"]) == 0
    assert exchanged in capsys.readouterr().out
    assert main([*command, "text.en", "text.en", "--out", "same"]) == 2
    assert "--pairs: both sides are the same text" in capsys.readouterr().err and not (here / "same").exists()
    lines = (here / "text.de").read_text().splitlines()
    (here / "half.en").write_text("\n".join([*lines[:250], *english(150, 7)]) + "\n")
    assert main([*command, "half.en", "text.de", "--out", "half"]) == 0
    assert "250 of 400 pairs have the same text on both sides" in capsys.readouterr().out


def test_pipes_are_refused_by_name(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As of `--pairs <(command) <(command)`, and before the pipe is opened, which would wait for a writer."""
    os.mkfifo(here / "pipe")
    for command in (
        ["fit", "model", "--pairs", "pipe", "text.de", "--languages", "en-de", "--out", "out"],
        [*FIT, "--text", "pipe"],
    ):
        assert main(command) == 2
        assert "pipe: a file is needed here, and this is a pipe" in capsys.readouterr().err, command
    assert not (here / "out").exists()


def test_a_direction_that_the_model_is_not_for_is_a_warning(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_languages([Languages(source="de", target="en")], here / "model")
    assert main([*FIT, "--plan"]) == 0
    assert "[warning]  the model is for de-en, not for en-de" in capsys.readouterr().out


def test_a_model_that_names_no_languages_needs_them(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert here and main([word for word in FIT if word not in ("--languages", "en-de")]) == 2
    message = capsys.readouterr().err
    assert "the model does not say what languages it is for" in message and "--languages" in message


@pytest.mark.ray
def test_a_fit_ends_with_the_advised_model_and_finds_itself_done_when_asked_again(files: Path) -> None:
    code, said = ended(files, FIT)
    assert code == 0, said
    require_finished(files, said)
    for message in ("[done]     finetune own seed 1", "On one seed, intervals and p-values describe these"):
        assert message in said
    code, again = ended(files, FIT)
    assert code == 0 and "all of it is done" in again and "[started]" not in again
    assert said[said.index("\nResult") :] == again[again.index("\nResult") :]
    code, refused = ended(files, [word for word in FIT if word != "--quick"])
    assert code == 2 and "holds another fit, with another quick" in refused


@pytest.mark.ray
@pytest.mark.slow
def test_a_fit_that_was_stopped_carries_on(files: Path) -> None:
    process = started(files, FIT)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("[done]     transfer own"):
            process.send_signal(signal.SIGTERM)
            break
    assert "the same command continues" in process.communicate(timeout=300)[0]
    assert process.returncode == 143
    assert not (files / "fitted" / "model").exists()
    code, said = ended(files, FIT)
    assert code == 0 and "[cached]   transfer own" in said, said
    require_finished(files, said)
