"""`import subgraft`: quick, typed, and the same as the commands."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import subgraft
from finished import gpt2_bundle, mbart_bundle, separate_bundle
from subgraft.config.experiment import Experiment
from subgraft.interfaces.api.experiments import lengths_for
from subgraft.interfaces.api.model import Model, features_in, generate
from subgraft.interfaces.api.text_scores import measure_text
from subgraft.interfaces.api.vocabularies import Text, capacities, text_lines
from subgraft.interfaces.cli import main
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import english, german


@pytest.fixture
def marian(tmp_path: Path) -> Path:
    (tmp_path / "marian").mkdir()
    separate_bundle().save(tmp_path / "marian")
    for language, lines in (("en", english(8)), ("de", german(300))):
        (tmp_path / f"text.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tmp_path / "marian"


def _files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def _vocabulary(text: Text, like: Model | Path) -> Tokenizer:
    return subgraft.learn_vocabulary(text, size=140, byte_fallback=False, like=like)


def test_importing_it_imports_nothing_else() -> None:
    code = "import sys, subgraft; dir(subgraft); print(*sorted(name for name in sys.modules if 'subgraft' in name))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["subgraft"]


@pytest.mark.parametrize("name", subgraft.__all__)
def test_everything_that_is_offered_is_there(name: str) -> None:
    offered = getattr(subgraft, name)
    assert offered.__name__ == name and offered.__doc__ and name in dir(subgraft)


def test_what_is_not_offered_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'transplant'"):
        _ = subgraft.transplant  # type: ignore[attr-defined]


def test_a_vocabulary_and_a_model_are_those_of_the_commands(marian: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.de"
    common = ["--text", str(text), "--size", "140", "--no-byte-fallback", "--like", str(marian)]
    assert main(["vocab", "learn", *common, "--out", str(tmp_path / "vocabulary")]) == 0
    arguments = ["--model", str(marian), "--vocab", str(tmp_path / "vocabulary"), "--method", "avg"]
    assert main(["transfer", *arguments, "--out", str(tmp_path / "commanded")]) == 0
    model = subgraft.load(marian)
    vocabulary = _vocabulary(german(300), model)
    assert vocabulary.fingerprint == Tokenizer.load(tmp_path / "vocabulary").fingerprint
    assert _vocabulary(text, marian).fingerprint == vocabulary.fingerprint
    subgraft.transfer(model, vocabulary, method="avg").save(tmp_path / "called")
    assert _files(tmp_path / "called") == _files(tmp_path / "commanded")


def test_a_model_in_memory_stays_as_it_was(marian: Path) -> None:
    model = subgraft.load(marian)
    before = {name: tensor.clone() for name, tensor in model.bundle.model.state_dict().items()}
    sentences = english(6)
    outputs = subgraft.translate(model, sentences, beam=1)
    fitted = subgraft.transfer(model, _vocabulary(german(300), model))
    assert fitted.reports["decoder"].unseen > 20 and fitted.bundle.decoder != model.bundle.decoder
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.bundle.model.state_dict().items())
    assert subgraft.translate(model, sentences, beam=1) == outputs


def test_translations_are_those_of_generate(marian: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fitted = subgraft.transfer(marian, _vocabulary(german(300), marian))
    fitted.save(tmp_path / "fitted")
    asked = ["--model", str(tmp_path / "fitted"), "--input", str(tmp_path / "text.en"), "--beam", "2"]
    assert main(["generate", *asked]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert subgraft.translate(fitted, english(8), beam=2) == shown and len(set(shown)) > 1
    assert subgraft.translate(tmp_path / "fitted", english(8), beam=2) == shown


def test_languages_are_given_as_a_pair(tmp_path: Path) -> None:
    model = Model(mbart_bundle())
    german_to_english = subgraft.translate(model, german(3), languages=("de_DE", "en_XX"), beam=1)
    assert german_to_english != subgraft.translate(model, german(3), languages=("en_XX", "de_DE"), beam=1)


def _refused(call: Callable[[], object]) -> str:
    with pytest.raises(subgraft.UserError) as raised:
        call()
    return str(raised.value)


def test_mistakes_are_the_commands_messages(marian: Path, tmp_path: Path) -> None:
    model = subgraft.load(marian)
    assert "two language codes" in _refused(lambda: subgraft.translate(model, ["x"], languages="en-de"))  # type: ignore[arg-type]
    assert "Give [text]" in _refused(lambda: subgraft.translate(model, "x"))
    assert "one string" in _refused(lambda: subgraft.learn_vocabulary("text.de", size=100))
    assert "no such model directory" in _refused(lambda: subgraft.load(tmp_path / "absent"))
    assert "unknown method 'maen'" in _refused(lambda: subgraft.transfer(model, marian, method="maen"))
    assert "trained generator" in _refused(lambda: subgraft.transfer(model, marian, method="patt"))
    assert "not an empty directory" in _refused(lambda: model.save(marian))
    assert "no such configuration" in _refused(lambda: subgraft.run(tmp_path / "absent.yaml"))
    assert "cannot translate" in _refused(lambda: subgraft.translate(Model(gpt2_bundle()), ["x"]))


def test_names_of_files_are_not_text(marian: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(text: Text) -> str:
        return _refused(lambda: subgraft.learn_vocabulary(text, size=100))

    monkeypatch.chdir(tmp_path)
    (tmp_path / "my text.de").write_text("dank\n")
    own = str(tmp_path / "my text.de")
    named: list[Text] = [["text.de"], [*german(300), "text.de"], [own, *german(300)], iter(["./text.de"])]
    for text_list in named:
        assert "names a file" in refused(text_list)
    alike: list[Text] = [
        ["contracts.de"],
        ["a.txt.gz", Path("text.de"), "corpus/train"],
        ("b\\c.tsv",),
        ["x.de"] * 5000,
    ]
    for text_list in alike:
        assert "looks like the name of a file" in (message := refused(text_list)) and "Path(" in message
    assert "names a data set" in refused(["hf://datasets/owner/name"])
    assert "expected lines or files, found {'text': 'dank'}" in refused([{"text": "dank"}])  # type: ignore[list-item]
    (tmp_path / "dank").write_text("dank\n")
    text = ["www.example.de", "und/oder", "dank", *german(300), "amazon.de", "https://example.de/a.txt"]
    assert subgraft.learn_vocabulary(iter(text), size=100, byte_fallback=False).encode("exam") == (
        subgraft.learn_vocabulary([*text], size=100, byte_fallback=False).encode("exam")
    )
    assert list(text_lines(text)) == text


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b", "x" * 300])
def test_what_no_file_can_be_called_is_refused_as_such(marian: Path, name: str) -> None:
    model, languages = subgraft.load(marian), ("en", "de")
    vocabulary = model.bundle.tokenizers["decoder"]
    out, text = marian / "out", marian.parent / "text.de"
    for call in (
        lambda: subgraft.learn_vocabulary(Path(name), size=100),
        lambda: subgraft.learn_vocabulary([Path(name)], size=100),
        lambda: subgraft.learn_vocabulary(text, size=100, like=name),
        lambda: subgraft.load(name),
        lambda: subgraft.load(Path(name)),
        lambda: subgraft.translate(Path(name), ["x"]),
        lambda: model.save(name),
        lambda: vocabulary.save(Path(name)),
        lambda: subgraft.transfer(model, vocabulary, method="patt", generator=name),
        lambda: subgraft.transfer(model, vocabulary, method="focus", static=Path(name)),
        lambda: subgraft.run(name),
        lambda: features_in(name),
        lambda: capacities(vocabulary, {"de": Path(name)}),
        lambda: measure_text(marian, [Path(name)]),
        lambda: subgraft.fit(marian, labels=True, pairs=Path(name), out=out),
        lambda: subgraft.train_generator(marian, languages=languages, text=name, out=out),
        lambda: subgraft.train_generator(marian, languages=languages, text=text, out=name),
    ):
        assert "file name" in _refused(call)


def test_wrong_arguments_are_named_in_pythons_words(marian: Path, tmp_path: Path) -> None:
    model: Any = subgraft.load(marian)
    wrong: list[tuple[str, Callable[[], object]]] = [
        ("model: expected a directory, a hub id, or models:/NAME@ALIAS, found None", lambda: subgraft.load(None)),  # type: ignore[arg-type]
        ("model: expected", lambda: subgraft.load("")),
        ("model: expected", lambda: subgraft.translate(7, ["x"])),  # type: ignore[arg-type]
        ("beam: expected a whole number from 1 to 1000, found 0", lambda: subgraft.translate(model, ["x"], beam=0)),
        ("beam: expected", lambda: subgraft.translate(model, ["x"], beam=2.0)),  # type: ignore[arg-type]
        ("batch_size: expected", lambda: subgraft.translate(model, ["x"], batch_size=-1)),
        ("texts: expected a list of texts, found None", lambda: subgraft.translate(model, None)),  # type: ignore[arg-type]
        ("texts: expected a list of texts, found [1]", lambda: subgraft.translate(model, [1])),  # type: ignore[list-item]
        ("languages: expected two", lambda: subgraft.translate(model, ["x"], languages=3)),  # type: ignore[arg-type]
        ("max_tokens: expected", lambda: generate(model, ["x"], max_tokens=0)),
        ("max_tokens: this model has an encoder", lambda: generate(model, ["x"], max_tokens=3)),
        ("sides: expected a sequence", lambda: subgraft.transfer(model, marian, sides="encoder,decoder")),  # type: ignore[arg-type]
        ("sides: expected", lambda: subgraft.transfer(model, marian, sides=["encoder", "encoder"])),
        ('("encoder", "decoder")', lambda: subgraft.transfer(model, marian, sides=["left"])),  # type: ignore[list-item]
        ("seed: expected", lambda: subgraft.transfer(model, marian, seed=-1)),
        ("vocabulary: expected a tokenizer, a model", lambda: subgraft.transfer(model, None)),  # type: ignore[arg-type]
        ("generator: att, patt, network need", lambda: subgraft.transfer(model, marian, method="patt")),
        ("static: ", lambda: subgraft.transfer(model, marian, method="focus")),
        ("size: expected", lambda: subgraft.learn_vocabulary(["x"], size=0)),
        ("kind: expected one of 'unigram'", lambda: subgraft.learn_vocabulary(["x"], size=9, kind="uni")),  # type: ignore[arg-type]
        ("character_coverage: ", lambda: subgraft.learn_vocabulary(["x"], size=9, character_coverage=2)),
        ("out: expected a path, found None", lambda: model.save(None)),
        ("config: expected a path", lambda: subgraft.run(None)),  # type: ignore[arg-type]
        ("overrides: expected", lambda: subgraft.run("x.yaml", "seeds=[1]")),
        (
            "kind: expected one of 'att'",
            lambda: subgraft.train_generator(
                marian, languages=("en", "de"), out=tmp_path / "out", text="x", kind="avg"
            ),
        ),
    ]
    for expected, call in wrong:
        said = _refused(call)
        assert expected in said and "--" not in said, said


def test_what_is_loaded_says_what_it_is(marian: Path) -> None:
    model = subgraft.load(marian)
    parameters = f"{model.bundle.model.num_parameters():,} parameters"
    assert repr(model).startswith("<Model: marian, 1 + 2 layers of width 16, ") and "float32" in repr(model)
    assert parameters in repr(model)
    english_size, german_size = (len(tokenizer) for tokenizer in model.bundle.tokenizers.values())
    assert f"vocabulary of {english_size} + {german_size} pieces" in repr(model)
    assert repr(model.bundle.decoder).startswith(
        f"<Tokenizer: {german_size} pieces, words marked by '▁', special tokens:"
    )
    assert "eos </s>" in repr(model.bundle.decoder) and len(repr(model.bundle.decoder)) < 200


def test_a_generator_is_not_begun_with_a_mistake(marian: Path, tmp_path: Path) -> None:
    pairs = (tmp_path / "text.en", tmp_path / "text.fr")
    languages, out = ("en", "de"), tmp_path / "out"
    train = subgraft.train_generator
    assert "text.fr: no such file" in _refused(lambda: train(marian, languages=languages, pairs=pairs, out=out))
    assert "pairs of files or on one text" in _refused(lambda: train(marian, languages=languages, out=out))
    assert "not an empty directory" in _refused(lambda: train(marian, languages=languages, pairs=pairs, out=marian))
    assert not out.exists()


def test_a_saved_model_has_the_rows_that_were_made(marian: Path, tmp_path: Path) -> None:
    fitted = subgraft.transfer(marian, _vocabulary(german(300), marian))
    fitted.save(tmp_path / "fitted")
    rows = load_file(tmp_path / "fitted" / "model.safetensors")
    state = fitted.bundle.model.state_dict()
    assert rows and all(torch.equal(tensor, state[name]) for name, tensor in rows.items())


def test_sequences_of_a_generator_s_training_fit_the_model(marian: Path) -> None:
    lengths = lengths_for(str(marian))
    assert lengths["network_training"] == lengths["generator_training"] == {"max_length": 40}
    assert lengths.keys() <= Experiment.model_fields.keys()
