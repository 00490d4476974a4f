"""The commands as a user chains them, on small models: what they print and what they write."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

import toys
from subgraft import __version__
from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.embeddings.initialisers.learned_embeddings import LearnedEmbeddings, origin
from subgraft.interfaces.cli import main, parser
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import side
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

SCRIPT = Path(sys.executable).with_name("subgraft")


class Ended(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Ended]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command in this process."""

    def run(*arguments: str | Path) -> Ended:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return Ended(code, *capsys.readouterr())

    return run


@pytest.fixture
def succeed(command: Command) -> Callable[..., str]:
    """Runs a command that must succeed; what it printed."""

    def run(*arguments: str | Path) -> str:
        ended = command(*arguments)
        assert (ended.code, ended.err) == (0, ""), ended.err
        return ended.out

    return run


Succeed = Callable[..., str]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SUBGRAFT_HOME", raising=False)
    monkeypatch.delenv("SUBGRAFT_DATA", raising=False)


def write(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def marian(tmp_path: Path) -> Path:
    directory = tmp_path / "marian"
    Bundle(toys.marian(), toys.english_tokenizer(), toys.german_tokenizer()).save(directory)
    return directory


def test_a_model_is_fitted_with_a_vocabulary_of_its_own(marian: Path, tmp_path: Path, succeed: Succeed) -> None:
    text, source = write(tmp_path / "de.txt", toys.german(400, 7)), write(tmp_path / "en.txt", toys.english(5))
    output = succeed("vocab", "learn", "--text", text, "--size", "180", "--no-byte-fallback", "--out", "new/vocabulary")
    assert output == "180 pieces written to new/vocabulary\n"
    assert len(Tokenizer.load(tmp_path / "new" / "vocabulary")) == 180

    gap = succeed("vocab", "compare", marian, "new/vocabulary", "--text", text, "--words", "4")
    counted = re.match(r"(\d+) of (\d+) downstream subwords .* are unseen, (\d+) seen", gap)
    assert counted is not None
    unseen, all_subwords, seen = map(int, counted.groups())
    assert (seen + unseen, unseen > 50) == (all_subwords, True)
    assert "tokens per sentence" in gap

    output = succeed("transfer", "--model", marian, "--vocab", "new/vocabulary", "--method", "avg", "--out", "fitted")
    # The bare mark is not a subword to compare, and has a row to copy.
    assert f"decoder: {seen + 1} seen, {unseen} unseen, 4 special" in output
    fitted = Bundle.load("fitted")
    assert len(fitted.decoder) == 180
    assert fitted.encoder.fingerprint == toys.english_tokenizer().fingerprint

    translated = succeed("generate", "--model", "fitted", "--input", source, "--beam", "2")
    assert len(translated.splitlines()) == 5
    write(tmp_path / "hypotheses.txt", translated.splitlines())
    same = ("evaluate", "--hypotheses", "hypotheses.txt", "--references", "hypotheses.txt")
    scores = succeed(*same, "--metric", "CIDEr", "--metric", "ROUGE-2")
    bleu, chrf, ter, rouge, meteor, pairs, cider = (line.split("\t") for line in scores.splitlines())
    assert (pairs[0], cider[0]) == ("ROUGE-2", "CIDEr") and "|variant:D|" in cider[2]
    assert (ter[:2], rouge[:2], meteor[0]) == (["TER", "0.00"], ["ROUGE-L", "100.00"], "METEOR")
    assert "modules:exact|" in meteor[2]
    assert (bleu[0], chrf[0], chrf[1]) == ("BLEU", "chrF", "100.00")
    assert "tok:13a" in bleu[2] and "case:mixed" in bleu[2] and chrf[2].startswith("nrefs:1")


def test_similar_tokens_are_columns_of_a_table(marian: Path, tmp_path: Path, succeed: Succeed) -> None:
    tokens = write(tmp_path / "tokens.txt", ["▁dankbarkeit", "schaftlich", "▁ж"])
    arguments = ("similar", "--vocab", marian, "--tokens", tokens, "--max-similar", "3")
    assert succeed(*arguments, "--out", "similar.tsv") == "3 tokens written to similar.tsv\n"
    head, *rows = [line.split("\t") for line in Path("similar.tsv").read_text(encoding="utf-8").splitlines()]
    assert head == ["token", "similar", "kind", "position", "rank"]
    assert {row[0] for row in rows} == {"▁dankbarkeit", "schaftlich", "▁ж"}
    assert {row[2] for row in rows} <= {"subword", "hyperword", "character", "byte", "mean"}
    assert {row[3] for row in rows} <= {"prefix", "infix", "suffix", ""}
    first = [row for row in rows if row[0] == "▁dankbarkeit"]
    assert [int(row[4]) for row in first] == list(range(1, len(first) + 1))
    assert first[0][3] == "prefix" and "▁dankbarkeit".startswith(first[0][1])
    assert ["▁ж", "", "mean", "", "1"] in rows

    shown = succeed("similar", "--vocab", marian, "--token", "▁dankbarkeit", "--max-similar", "3")
    assert all(row[1] in shown for row in first)


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("_dankbarkeit", "an ASCII underscore"),
        ("##bar", "##, another vocabulary's mark"),
        ("▁dankbarkeit", ""),
        ("_", ""),
    ],
)
def test_a_mark_that_is_not_the_vocabularys_is_refused(
    marian: Path, token: str, message: str, command: Command
) -> None:
    done = command("similar", "--vocab", marian, "--token", token)
    assert done.code == 0 and message in done.err and bool(done.err) == bool(message)
    assert not message or "a word's beginning is written ▁" in done.err


def test_embeddings_are_means_of_similar_tokens_with_their_names(
    marian: Path, tmp_path: Path, succeed: Succeed
) -> None:
    spellings = ["schaftlich", "▁dankbarkeit"]
    tokens = write(tmp_path / "tokens.txt", spellings)
    message = succeed("embed", "--model", marian, "--generator", "avg", "--tokens", tokens, "--out", "e.safetensors")
    assert message.startswith("2 embeddings written to e.safetensors")
    with safe_open("e.safetensors", framework="pt") as file:
        assert list(file.keys()) == ["embeddings"]
        embeddings, metadata = file.get_tensor("embeddings"), file.metadata()
    assert json.loads(metadata["tokens"]) == spellings
    assert embeddings.shape == (2, toys.SHAPE["d_model"])

    succeed("similar", "--vocab", marian, "--tokens", tokens, "--out", "similar.tsv")
    rows = [line.split("\t") for line in Path("similar.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    ids, table = toys.german_tokenizer().pieces, toys.marian().model.decoder.embed_tokens.weight
    for spelling, embedding in zip(spellings, embeddings, strict=True):
        similar = [ids.index(row[1]) for row in rows if row[0] == spelling]
        torch.testing.assert_close(embedding, table[similar].mean(dim=0).detach())


@pytest.mark.parametrize("method", ["random", "random-matched", "mean", "avg", "reconstruction"])
def test_every_method_that_needs_no_training_transfers(
    method: str, marian: Path, tmp_path: Path, succeed: Succeed
) -> None:
    toys.german_tokenizer(150).save(tmp_path / "vocabulary")
    sides = ("--sides", "encoder,decoder") if method == "avg" else ()
    succeed("transfer", "--model", marian, "--vocab", "vocabulary", "--method", method, *sides, "--out", "fitted")
    fitted = Bundle.load("fitted")
    assert len(fitted.decoder) == 150
    assert len(fitted.encoder) == (150 if sides else len(toys.english_tokenizer()))


def test_static_embeddings_are_trained_and_used(marian: Path, tmp_path: Path, succeed: Succeed) -> None:
    toys.german_tokenizer(150).save(tmp_path / "vocabulary")
    text = write(tmp_path / "de.txt", toys.german(200))
    small = ("--dimensions", "16", "--epochs", "1", "--algorithm", "skip-gram")
    message = succeed("vocab", "embed", "--vocab", "vocabulary", "--text", text, *small, "--out", "vectors")
    assert re.fullmatch(r"\d+ of 150 tokens have a vector, written to vectors\s*", message)
    arguments = ("--model", marian, "--vocab", "vocabulary", "--static", "vectors")
    succeed("transfer", *arguments, "--method", "word2vec", "--out", "fitted")
    vectors = load_file("vectors/static_embeddings.safetensors")["vectors"]
    new = [i for entry, i in toys.german_tokenizer(150).ids.items() if entry not in toys.german_tokenizer().ids]
    new = [i for i in new if vectors[i].any()]
    table = Bundle.load("fitted").model.model.decoder.embed_tokens.weight
    cosines = torch.cosine_similarity(table[new], vectors[new])
    assert len(new) > 20
    torch.testing.assert_close(cosines, torch.ones(len(new)))


def test_distilled_rows_are_taken(marian: Path, tmp_path: Path, succeed: Succeed) -> None:
    source, target = toys.german_tokenizer(), toys.german_tokenizer(150)
    target.save(tmp_path / "vocabulary")
    tokens = torch.tensor([token for entry, token in target.ids.items() if entry not in source.ids][:9])
    rows = torch.randn(len(tokens), 16, generator=torch.Generator().manual_seed(1))
    upstream = side(Bundle.load(marian).model, "decoder")
    LearnedEmbeddings(target, tokens, rows, *origin(upstream, source)).save(tmp_path / "distilled" / "decoder")
    arguments = ("--model", marian, "--vocab", "vocabulary", "--distilled", "distilled")
    succeed("transfer", *arguments, "--method", "token-distillation", "--out", "fitted")
    table = side(Bundle.load("fitted").model, "decoder").input.weight
    assert torch.equal(table[tokens], rows)


def test_a_vocabulary_like_a_models_fits_it(tmp_path: Path, succeed: Succeed) -> None:
    Bundle(toys.mbart(), toys.multilingual_tokenizer(), toys.multilingual_tokenizer()).save(tmp_path / "mbart")
    text, source = write(tmp_path / "de.txt", toys.german(400, 7)), write(tmp_path / "en.txt", toys.english(2))
    succeed(
        "vocab",
        "learn",
        "--text",
        text,
        "--size",
        "150",
        "--no-byte-fallback",
        "--like",
        "mbart",
        "--kind",
        "bpe",
        "--out",
        "new",
    )
    assert set(Tokenizer.load(tmp_path / "new").languages) == {"de_DE", "en_XX"}
    succeed("transfer", "--model", "mbart", "--vocab", "new", "--method", "mean", "--out", "fitted")
    translated = succeed("generate", "--model", "fitted", "--input", source, "--beam", "1", "--languages", "en-de")
    assert len(translated.split("\n")) == 3


def test_a_vocabulary_is_like_one_that_was_learnt_before(marian: Path, tmp_path: Path, succeed: Succeed) -> None:
    text = write(tmp_path / "de.txt", toys.german(400, 7))
    unspelt = ("--text", text, "--no-byte-fallback")
    succeed("vocab", "learn", *unspelt, "--size", "150", "--like", marian, "--out", "first")
    succeed("vocab", "learn", *unspelt, "--size", "180", "--like", "first", "--kind", "bpe", "--out", "second")
    first, second = Tokenizer.load(tmp_path / "first"), Tokenizer.load(tmp_path / "second")
    assert first.special == second.special
    succeed("transfer", "--model", marian, "--vocab", "second", "--method", "mean", "--out", "fitted")


def test_an_extended_vocabulary_leaves_every_row_that_there_was(marian: Path, tmp_path: Path, succeed: Succeed) -> None:
    text = write(tmp_path / "de.txt", toys.german(400, 7))
    message = succeed("vocab", "extend", marian, "--text", text, "--add", "40", "--out", "more")
    assert message.startswith("40 subwords added to 90: 130 written to more\nanother text may have more tokens")
    message = succeed("transfer", "--model", marian, "--vocab", "more", "--method", "mean", "--out", "fitted")
    assert "decoder: 86 seen, 40 unseen, 4 special" in message
    old, new = (side(Bundle.load(place).model, "decoder") for place in (marian, "fitted"))
    assert len(new.input.weight) == 130 and torch.equal(new.input.weight[:90], old.input.weight)
    assert new.bias is not None and old.bias is not None
    assert torch.equal(new.bias.flatten()[:90], old.bias.flatten())
    shorter = succeed("vocab", "compare", marian, "more", "--text", text)
    counts = re.search(r"tokens per sentence\D+([\d.]+)\D+([\d.]+)", shorter)
    assert counts is not None and float(counts[2]) < 0.7 * float(counts[1])


def test_words_of_a_file_are_single_tokens_with_rows_of_their_own(
    marian: Path, tmp_path: Path, succeed: Succeed
) -> None:
    text = write(tmp_path / "de.txt", toys.german(400, 7))
    words = write(tmp_path / "words.txt", ["dankbarland", "", " <br> "])
    succeed("vocab", "extend", marian, "--text", text, "--add", "10", "--words", words, "--out", "more")
    vocabulary = Tokenizer.load(tmp_path / "more")
    assert list(vocabulary.symbols.values()) == ["dankbarland", "<br>"]
    message = succeed("transfer", "--model", marian, "--vocab", "more", "--method", "mean", "--out", "fitted")
    assert "10 unseen" in message
    rows = side(Bundle.load("fitted").model, "decoder").input.weight
    word = next(iter(vocabulary.symbols))
    parts = Bundle.load(marian).decoder.encode("dankbarland")
    assert torch.allclose(rows[word], rows[parts].mean(0), atol=1e-6)
    learnt = ("--text", text, "--size", "100", "--no-byte-fallback", "--words", words, "--out", "new")
    assert succeed("vocab", "learn", *learnt) == "100 pieces written to new\n"
    assert len(Tokenizer.load(tmp_path / "new").symbols) == 2


@pytest.mark.parametrize("command", ["learn --size 100 --no-byte-fallback", "extend MODEL --add 10"])
@pytest.mark.parametrize(
    ("word", "complaint"), [("</s>", "is a special token"), ("de_DE", "form of a language code"), ("X²", "Write 'X2'")]
)
def test_words_that_cannot_be_tokens_are_refused_by_their_line(
    command: str, word: str, complaint: str, marian: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = write(tmp_path / "de.txt", toys.german(400, 7))
    words = write(tmp_path / "words.txt", ["", "dankbarland", "", f" {word} "])
    named = ["vocab", *(str(marian) if part == "MODEL" else part for part in command.split())]
    assert main([*named, "--text", str(text), "--words", str(words), "--out", "new"]) == 2
    message = capsys.readouterr().err
    assert f"{words}:4: '{word}' cannot be a single token: " in message
    assert complaint in message
    assert not (tmp_path / "new").exists()


def test_a_trimmed_model_is_as_sure_of_every_token_that_it_still_has(
    marian: Path, tmp_path: Path, succeed: Succeed
) -> None:
    lines = toys.german(6, 7)
    message = succeed("vocab", "trim", marian, "--text", write(tmp_path / "de.txt", lines), "--out", "less")
    remaining = Tokenizer.load(tmp_path / "less")
    assert message == f"{len(remaining)} of 90 subwords retained, written to less\n" and len(remaining) < 90
    succeed("transfer", "--model", marian, "--vocab", "less", "--method", "mean", "--out", "fitted")
    old, new = Bundle.load(marian), Bundle.load("fitted")
    rows = [old.decoder.pieces.index(piece) for piece in remaining.pieces]
    source = torch.tensor([old.encoder.encode(toys.english(1)[0])])
    logits = []
    for bundle in (old, new):
        target = torch.tensor([bundle.decoder.encode(lines[0])])
        with torch.no_grad():
            logits.append(bundle.model.eval()(input_ids=source, decoder_input_ids=target).logits)
    assert torch.equal(logits[0][..., rows], logits[1])


def test_a_bert_becomes_an_encoder_decoder_and_is_fitted(tmp_path: Path, succeed: Succeed, command: Command) -> None:
    toys.publish_bert(tmp_path / "bert", pretraining=True)
    text, source = write(tmp_path / "de.txt", toys.german(400, 7)), write(tmp_path / "en.txt", toys.english(2))
    like = ("--like", "bert", "--kind", "wordpiece", "--out", "new")
    succeed("vocab", "learn", "--text", text, "--size", "200", *like)
    refused = command("transfer", "--model", "bert", "--vocab", "new", "--method", "mean", "--out", "fitted")
    assert refused.code == 2 and "`subgraft assemble`" in refused.err
    assert not (tmp_path / "fitted").exists()
    assert "parameters written to whole" in succeed("assemble", "--model", "bert", "--out", "whole")
    refused = command("assemble", "--model", "whole", "--out", "again")
    assert refused.code == 2 and "nothing to assemble" in refused.err
    succeed("transfer", "--model", "whole", "--vocab", "new", "--method", "mean", "--out", "fitted")
    translated = succeed("generate", "--model", "fitted", "--input", source, "--beam", "1", "--languages", "en-de")
    assert len(translated.split("\n")) == 3


@pytest.mark.parametrize("build", [toys.gpt2, toys.llama])
def test_a_decoder_alone_is_fitted(build: Any, tmp_path: Path, succeed: Succeed, command: Command) -> None:
    old, new = toys.german_tokenizer(), toys.fitted_tokenizer()
    Bundle(build(), old, old).save(tmp_path / "model")
    new.save(tmp_path / "vocabulary")
    arguments = ("--model", "model", "--vocab", "vocabulary", "--method", "avg")
    assert succeed("transfer", *arguments, "--out", "fitted").startswith("decoder: ")
    fitted = Bundle.load("fitted")
    assert side(fitted.model, "decoder").input.weight.shape == (len(new), toys.SHAPE["d_model"])
    refused = command("transfer", *arguments, "--sides", "encoder,decoder", "--out", "both")
    assert refused.code == 2 and "has no encoder" in refused.err


@pytest.mark.parametrize("build", [toys.gpt2, toys.llama])
def test_a_decoder_alone_continues_prompts(build: Any, tmp_path: Path, succeed: Succeed, command: Command) -> None:
    """Greedily, token by token, as transformers' logits have it; each prompt by itself, however they are batched."""
    tokenizer = toys.german_tokenizer()
    Bundle(build(), tokenizer, tokenizer).save(tmp_path / "model")
    prompts = ["danke", "danke freund , gute nacht", "gute"]
    (tmp_path / "prompts.txt").write_text("".join(f"{prompt}\n" for prompt in prompts))
    arguments = ("generate", "--model", "model", "--input", "prompts.txt", "--beam", "1", "--max-tokens", "3")
    written = succeed(*arguments).split("\n")
    assert written[:-1] == [greedily(Bundle.load("model"), prompt, 3) for prompt in prompts]
    assert succeed(*arguments).split("\n") == succeed(*arguments, "--batch-size", "1").split("\n") == written
    scored = ("evaluate", "--model", "model", "--sources", "prompts.txt", "--references", "prompts.txt")
    refused = command(*scored)
    assert refused.code == 2 and "has no encoder" in refused.err


def greedily(bundle: Bundle, prompt: str, count: int) -> str:
    form = bundle.sequence_format(Languages(source="de", target="de"))
    arguments = bundle.decoder.encode(prompt)
    tokens = list(arguments)
    for _ in range(count):
        with torch.no_grad():
            logits = bundle.model.eval()(torch.tensor([[form.start, *tokens]])).logits
        if (best := int(logits[0, -1].argmax())) == bundle.decoder.special["eos"]:
            break
        tokens.append(best)
    return bundle.decoder.decode(tokens)[len(bundle.decoder.decode(arguments)) :]


@pytest.mark.parametrize("named", [(), ("--input", "-")])
def test_sentences_come_from_standard_input(
    marian: Path, succeed: Succeed, monkeypatch: pytest.MonkeyPatch, named: tuple[str, ...]
) -> None:
    spoken = "thank friend.\r\n\nday\x85night".encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(spoken), encoding="ascii"))
    assert len(succeed("generate", "--model", marian, "--beam", "1", *named).split("\n")) == 4


def test_corpora_are_listed_checked_and_kept(tmp_path: Path, succeed: Succeed) -> None:
    folder = tmp_path / "pairs"
    folder.mkdir()
    for language, line in (("en", "a cat"), ("fr", "un chat")):
        write(folder / f"train.{language}", [f"{line} {i}" for i in range(7)])
    assert "everyday" in succeed("corpora", "list")
    checked = succeed("corpora", "check", "pairs", "--languages", "en-fr")
    assert [re.split(r"\W+", line)[1:5] for line in checked.splitlines() if "train" in line] == [
        ["train", "source", "en", "7"],
        ["train", "target", "fr", "7"],
    ]
    message = succeed("corpora", "get", "pairs", "--languages", "en-fr", "--out", "kept/here")
    assert "train: kept 7, read 7" in message
    assert Path("kept/here/train.target").read_text().splitlines()[6] == "un chat 6"


def test_corpora_of_documents_and_labels_are_got_as_they_are_listed(tmp_path: Path, succeed: Succeed) -> None:
    (tmp_path / "docs").mkdir()
    lines = [f'{{"document": "{name}", "en": ["a {name}", "b"], "fr": ["c", "d {name}"]}}' for name in ("one", "two")]
    write(tmp_path / "docs" / "train.jsonl", lines)
    message = succeed("corpora", "get", "docs", "--languages", "fr-en", "--out", "kept")
    assert "documents 2" in message
    assert Path("kept/train.source").read_text() == "c\nd one\nc\nd two\n"
    assert Path("kept/train.documents").read_text() == "one\t0\none\t1\ntwo\t0\ntwo\t1\n"
    checked = succeed("corpora", "check", "kept")
    assert [re.split(r"\W+", line)[1:6] for line in checked.splitlines() if "train" in line] == [
        ["train", "source", "fr", "4", "2"],
        ["train", "target", "en", "4", "2"],
    ]
    (tmp_path / "mono").mkdir()
    for language in ("sw", "zu", "xh"):
        write(tmp_path / "mono" / f"{language}.txt", [f"{language} 1", f"{language} 2"])
    succeed("corpora", "get", "mono", "--languages", "zu,sw", "--out", "two")
    assert sorted(path.name for path in Path("two").iterdir()) == ["corpus.json", "train.sw", "train.zu"]


def test_a_corpus_of_labels_is_checked_and_got(repository: Path, tmp_path: Path, succeed: Succeed) -> None:
    questions = (repository / "configs" / "attributes.yaml").read_text(encoding="utf-8")
    folder = {"folder": str(tmp_path / "ner"), "format": "conll"}
    (tmp_path / "ner").mkdir()
    write(
        tmp_path / "ner" / "train.conll", ["Ann B-PER", "sleeps O", "", *(f"w{at} T{at % 30:02}" for at in range(31))]
    )
    write(tmp_path / "ner" / "dev.conll", ["Ann I-PER", "", "Ann T00"])
    config = tmp_path / "ner.yaml"
    added = f"corpora:\n  ner: {{labelled: {json.dumps(folder)}}}\n"
    config.write_text(questions.replace("corpora:\n", added), encoding="utf-8")
    checked = succeed("corpora", "check", f"{config}:ner")
    assert "annotation of 32 classes" in checked and "dev: 1 ill nested tags" in checked
    assert "train.tags: T00 2, B-PER 1, O 1, T01 1" in checked and "and 8 others down to T29 1" in checked
    assert "dev: ill_nested_tags 1, kept 2, read 2, unknown_tags 1" in succeed(
        "corpora", "get", f"{config}:ner", "--out", "got"
    )
    assert Path("got/dev.tags").read_text() == '["I-PER"]\n["T00"]\n', "a tag that training lacks is an error"


def test_a_plan_shows_every_step_and_writes_nothing(repository: Path, tmp_path: Path, succeed: Succeed) -> None:
    config = repository / "configs" / "quickstart.yaml"
    planned = succeed("plan", config, "seeds=[1]")
    assert "finetune random seed 1" in planned and "seed 2" not in planned
    # Overrides may stand behind an option, and an option in front.
    assert succeed("run", config, "--plan", "seeds=[1]") == planned == succeed("run", "--plan", config, "seeds=[1]")
    assert list(tmp_path.iterdir()) == []


def test_a_tracking_server_that_is_away_is_the_worlds_failure(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")  # nothing listens on the port of `discard`
    for arguments in (("compare", "run"), ("report", "run", "--out", "new"), ("generate", "--model", "models:/m@a")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        ended = command(*arguments)
        assert (ended.code, ended.out) == (1, "")
        assert ended.err.startswith("subgraft: http://127.0.0.1:9: the tracking server does not answer")
        assert "Traceback" not in ended.err


def test_doctor_finds_what_a_run_needs(succeed: Succeed) -> None:
    findings = succeed("doctor").splitlines()
    assert any("torch" in line for line in findings)
    assert all(line.startswith("ok") for line in findings)


def test_doctor_checks_what_a_job_would_send(
    succeed: Succeed, command: Command, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    (line,) = [line for line in succeed("doctor", "--upload", "runtime_env.yaml").splitlines() if "upload" in line]
    assert re.fullmatch(r"ok       upload of a job: \d+ files, [0-4]\.\d MB", line)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runtime_env.yaml").write_text("working_dir: .\n")
    (tmp_path / "large.bin").write_bytes(os.urandom(11_000_000))
    ended = command("doctor", "--upload", "runtime_env.yaml")
    assert ended.code == 2
    assert "runtime_env.yaml: a job would send 11.0 MB in 2 files, above all large.bin (11.0 MB)" in ended.err


@pytest.mark.parametrize("start", [[str(SCRIPT)], [sys.executable, "-m", "subgraft"]])
def test_both_ways_to_start_it(start: list[str]) -> None:
    ended = subprocess.run([*start, "--version"], capture_output=True, text=True, check=True)
    assert ended.stdout == f"subgraft {__version__}\n"


def test_help_loads_no_heavy_library() -> None:
    program = """if True:
        import sys
        from subgraft.interfaces.cli import main
        try:
            main(["--help"])
        except SystemExit:
            pass
        heavy = {"torch", "transformers", "tokenizers", "ray", "mlflow", "numpy", "matplotlib", "sacrebleu"}
        print(sorted(heavy & set(sys.modules)), file=sys.stderr)
    """
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stderr == "[]\n"
    for name in ("run", "plan", "corpora", "vocab", "similar", "embed", "transfer", "generate", "compare", "report"):
        assert f"\n  {name} " in ended.stdout


def test_a_reader_that_has_enough_is_not_an_error() -> None:
    with subprocess.Popen([str(SCRIPT), "corpora", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("export m --to gguf --out o", "export --to gguf --model m --out o"),
        ("export m --to gguf --out o", "export --to gguf --out o --model=m"),
        ("predict m --input f", "predict --input f --model m"),
        ("vocab trim m --text a b --out o", "vocab trim --text a b --model m --out o"),
        ("serve a b", "serve b --model a"),
        ("generate --model m --input f", "generate m --input f"),
        ("generate --model m --input f", "generate --input f m"),
        ("generate --model m --beam 2 --input f", "generate --beam 2 m --input f"),
        ("evaluate --model m --references r", "evaluate m --references r"),
        ("embed --model m --generator avg --tokens f --out o", "embed --generator avg --tokens f m --out o"),
    ],
)
def test_a_model_is_an_argument_or_an_option(one: str, other: str) -> None:
    first, second = (vars(parser().parse(words.split())) for words in (one, other))
    assert first == second


@pytest.mark.parametrize(
    "words",
    [
        "export m --model n --to gguf --out o",
        "evaluate m --model n --references r",
        "evaluate --references r",
        "predict --model",
        "generate m --model n",
        "generate m n",
        "generate --input f",
    ],
)
def test_a_model_that_is_there_twice_or_nowhere_is_refused(words: str) -> None:
    with pytest.raises(UserError):
        parser().parse(words.split())


@pytest.mark.parametrize(
    ("words", "name", "values"),
    [
        (("serve", "a", "--port", "0", "b"), "models", ["a", "b"]),
        (("compare", "one", "--json", "two", "three"), "runs", ["one", "two", "three"]),
        (("plan", "c.yaml", "seeds=[1]", "--json", "preset=small"), "overrides", ["seeds=[1]", "preset=small"]),
    ],
)
def test_the_words_of_a_list_may_be_on_both_sides_of_an_option(words: Sequence[str], name: str, values: object) -> None:
    assert vars(parser().parse(words))[name] == values
