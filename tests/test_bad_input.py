"""Every mistake of a user: one message that says what, where and how to mend it, exit code 2, and nothing written."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import toys
from subgraft.embeddings.generators.generator import Generator, GeneratorOrigin, save_generators, table_digest
from subgraft.embeddings.methods.registry import METHODS
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle

SCRIPT = Path(sys.executable).with_name("subgraft")
CONFIG = """\
name: tiny
languages: {source: en, target: de}
corpora:
  upstream: {folder: pairs}
  downstream: {folder: pairs}
upstream: {corpus: upstream, vocabulary: {size: 100, byte_fallback: false}}
downstream: {corpus: downstream, vocabulary: {size: 100, byte_fallback: false}}
finetune: {epochs: 1}
systems:
  - {name: avg, initialiser: avg}
"""


def write(path: Path, lines: Sequence[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_pairs(folder: Path, splits: Sequence[str] = ("train", "dev", "test")) -> Path:
    for split in splits:
        write(folder / f"{split}.en", toys.english(6))
        write(folder / f"{split}.de", toys.german(6))
    return folder


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands are tried on: models, vocabularies, texts, corpora and configurations, sound and broken."""
    place = tmp_path_factory.mktemp("workshop")
    german, multilingual = toys.german_tokenizer(), toys.multilingual_tokenizer()
    Bundle(toys.marian(), toys.english_tokenizer(), german).save(place / "marian")
    Bundle(toys.mbart(), multilingual, multilingual).save(place / "mbart")
    Bundle(toys.gpt2(), german, german).save(place / "gpt2")
    Bundle(toys.bert(), toys.cased_tokenizer(), toys.cased_tokenizer()).save(place / "bert")
    shutil.copytree(place / "marian", place / "no-weights")
    (place / "no-weights" / "model.safetensors").unlink()
    toys.german_tokenizer(150).save(place / "vocabulary")
    _save_generators(place)
    write(place / "text.txt", toys.german(50))
    write(place / "tokens.txt", ["▁dankbarkeit", "schaftlich"])
    write(place / "gap.txt", ["▁dankbarkeit", "", "schaftlich"])
    write(place / "codes.txt", ["danke freund.", "de_DE danke freund."])
    (place / "empty.txt").touch()
    (place / "broken.txt").write_bytes("gut\nStraße\n".encode() + b"Stra\xdfe\n")
    _write_corpora(place)
    (place / "config.yaml").write_text(CONFIG, encoding="utf-8")
    return place


def _save_generators(place: Path) -> None:
    """Trained (or so they say) for another model, for this one, and one that cannot be read."""
    table, vocabulary = toys.marian().model.decoder.embed_tokens.weight, toys.german_tokenizer().fingerprint
    for name, digest in (("foreign", table_digest(table + 1)), ("own", table_digest(table))):
        (place / name).mkdir()
        origin = GeneratorOrigin(digest, vocabulary, 10)
        save_generators({"decoder": Generator("patt", table.shape[1])}, {"decoder": origin}, place / name)
    shutil.copytree(place / "own", place / "unreadable")
    (place / "unreadable" / "generator.json").write_text("{")


def _write_corpora(place: Path) -> None:
    write_pairs(place / "pairs")
    write(write_pairs(place / "unequal") / "train.de", toys.german(5))
    (write_pairs(place / "not-utf8") / "dev.de").write_bytes(b"eins\nzwei\n\xff\n4\n5\n6\n")
    write_pairs(place / "nothing", ("dev", "test"))
    for language in ("en", "de"):
        (place / "nothing" / f"train.{language}").touch()
    write_pairs(place / "no-dev", ("train", "test"))
    (write_pairs(place / "one-sided") / "test.de").unlink()


@pytest.fixture(autouse=True)
def _inside(workshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workshop)
    for variable in ("SUBGRAFT_HOME", "SUBGRAFT_DATA", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(variable, raising=False)


def everything(place: Path) -> list[tuple[str, int, int]]:
    """Names, sizes and times of all there is."""
    paths = sorted(place.rglob("*"))
    return [(str(path), (stat := path.stat()).st_size, stat.st_mtime_ns) for path in paths]


def refusal(place: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The message of a command that must refuse, write nothing and say nothing else."""
    before = everything(place)
    capsys.readouterr()
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert everything(place) == before
    assert said.out == ""
    assert [line.startswith("subgraft: ") for line in said.err.splitlines()].count(True) == 1
    assert said.err.startswith("subgraft: ")
    assert "Traceback" not in said.err and 'File "' not in said.err
    return said.err


def words(line: str) -> tuple[str, ...]:
    return tuple(line.split())


LEARN = "vocab learn --text text.txt --size 60 --no-byte-fallback --out new"
SIMILAR = "similar --vocab marian"
EMBED = "embed --model marian --generator avg --tokens tokens.txt --out new.safetensors"
TRANSFER = "transfer --model marian --vocab vocabulary --method avg --out new"
GENERATE = "generate --model marian --input text.txt"

# The command, and what its message must hold, in any order.
MISTAKES = [
    ("", ["COMMAND"]),
    ("vocabulary", ["unknown command 'vocabulary'", "Did you mean `subgraft vocab`?"]),
    ("tranfer", ["unknown command 'tranfer'", "Did you mean `subgraft transfer`?"]),
    ("vocab lern", ["vocab: unknown command 'lern'", "`subgraft vocab learn`"]),
    ("--verison", ["unknown option --verison", "Did you mean --version?"]),
    ("transfer --modle marian", ["transfer: unknown option --modle", "Did you mean --model?"]),
    ("convert marian other --out new", ["convert: unexpected: other", "subgraft convert --help"]),
    (
        "export marian --to ctranslat --out new",
        ["export: --to is one of ctranslate2, gguf, transformers, found 'ctranslat'", "Did you mean ctranslate2?"],
    ),
    ("vocab", ["{learn,extend,trim,compare,embed,capacity,allocate}", "subgraft vocab --help"]),
    (f"{LEARN} --min-count 0", ["--min-count", "'0'"]),
    (f"{LEARN} --min-count 500", ["vocabulary of 60 pieces that are each used at least 500 times", "lower min_count"]),
    ("vocab learn --size 60 --out new", ["vocab learn", "--text"]),
    (f"{LEARN} --pieces 7", ["vocab learn: unknown option --pieces"]),
    (f"{LEARN} --size 3", ["3 pieces", "special tokens"]),
    (f"{LEARN} --size 0", ["--size", "'0'", "from 1"]),
    (f"{LEARN} --size 2000000000", ["--size", "from 1 to 1000000", "'2000000000'"]),
    (f"{LEARN} --size many", ["--size", "'many'", "whole number"]),
    (f"{LEARN} --size 100000", ["100000", "is the largest", "at most"]),
    (f"{LEARN} --size 100000 --kind bpe", ["100000", "is the largest", "at most"]),
    (f"{LEARN} --size 100000 --kind wordpiece", ["100000", "is the largest", "at most"]),
    (f"{LEARN} --kind unigramm", ["--kind is one of unigram, bpe, wordpiece, byte-level-bpe, found 'unigramm'"]),
    (f"{LEARN} --kind wordpiece --byte-fallback", ["byte_fallback", "wordpiece"]),
    (f"{LEARN} --text empty.txt --out a/b/new", ["empty.txt: there is no text"]),
    (f"{LEARN} --text absent.txt", ["absent.txt: no such file"]),
    (f"{LEARN} --text broken.txt", ["broken.txt:3: not UTF-8", "0xdf", "Convert"]),
    (f"{LEARN} --text broken.txt --kind wordpiece", ["broken.txt:3: not UTF-8"]),
    (f"{LEARN} --text pairs", ["pairs", "the folder has no file of text"]),
    (f"{LEARN} --like ./absent", ["./absent: no such model directory"]),
    (f"{LEARN} --out vocabulary", ["vocabulary: exists and is not an empty directory", "another directory"]),
    (f"{LEARN} --out text.txt", ["text.txt: exists"]),
    (f"{LEARN} --out text.txt/new", ["text.txt: a folder was expected"]),
    ("vocab compare marian ./absent", ["absent: no such model directory"]),
    ("vocab compare ./absent vocabulary", ["./absent: no such model directory"]),
    ("vocab compare marian pairs", ["pairs: ", "no vocabulary here"]),
    ("vocab compare marian vocabulary --text empty.txt", ["empty.txt: there is no text"]),
    ("vocab extend vocabulary --add 5 --text empty.txt --out new", ["empty.txt: there is no text"]),
    ("vocab compare marian vocabulary --words -1", ["--words", "'-1'"]),
    (SIMILAR, ["--token", "--tokens", "required"]),
    (f"{SIMILAR} --token ▁a --tokens tokens.txt", ["not allowed with"]),
    (f"{SIMILAR} --token ▁", ["--token: '▁' is not a subword"]),
    (f"{SIMILAR} --tokens gap.txt --out new.tsv", ["gap.txt:2: '' is not a subword", "One subword per line"]),
    (f"{SIMILAR} --tokens empty.txt", ["empty.txt: contains no token"]),
    (f"{SIMILAR} --tokens broken.txt", ["broken.txt:3: not UTF-8"]),
    (f"{SIMILAR} --tokens tokens.txt --out text.txt", ["text.txt: exists already"]),
    (f"{SIMILAR} --token ▁a --max-similar 0", ["--max-similar", "'0'", "from 1"]),
    ("similar --vocab text.txt --token ▁a", ["text.txt"]),
    (f"{EMBED} --tokens gap.txt", ["gap.txt:2: '' is not a subword"]),
    (f"{EMBED} --out text.txt", ["text.txt: exists already"]),
    (f"{EMBED} --model ./absent", ["./absent: no such model directory"]),
    (f"{EMBED} --model vocabulary", ["vocabulary: not a model directory", "config.json"]),
    (f"{EMBED} --model gpt2 --side encoder", ["gpt2", "no encoder"]),
    (f"{EMBED} --generator vocabulary", ["vocabulary: no generator.json here"]),
    (f"{EMBED} --generator unreadable", ["generator.json: not JSON"]),
    (f"{EMBED} --generator foreign", ["foreign: this generator was made for another model", "digest"]),
    (f"{EMBED} --generator own --side encoder", ["own: this generator was trained for decoder, not for the encoder"]),
    (f"{TRANSFER} --method averaged", ["'averaged'", *METHODS]),
    (f"{TRANSFER} --method patt", ["--generator", "patt"]),
    (f"{TRANSFER} --generator own", ["--generator", "nothing else"]),
    (f"{TRANSFER} --method focus", ["--static", "focus", "vocab embed"]),
    (f"{TRANSFER} --static own", ["--static", "nothing else"]),
    (f"{TRANSFER} --method omp --static vocabulary", ["vocabulary: no static embeddings here", "vocab embed"]),
    (
        f"{TRANSFER} --method token-distillation",
        [
            "--distilled",
            "token-distillation, attention-influence, likelihood-matching, vocadt, fitted need",
            "`token distillation`",
        ],
    ),
    (f"{TRANSFER} --method likelihood-matching", ["--distilled", "`likelihood matching`"]),
    (f"{TRANSFER} --distilled own", ["--distilled", "nothing else"]),
    (f"{TRANSFER} --method token-distillation --distilled own", ["own/decoder: no distilled rows here"]),
    (f"{TRANSFER} --method patt --generator vocabulary", ["vocabulary: no generator.json here"]),
    (f"{TRANSFER} --method patt --generator foreign", ["foreign: this generator was made for another model"]),
    (f"{TRANSFER} --method att --generator own", ["own: this is a generator of kind patt, not att"]),
    (f"{TRANSFER} --model mbart --method patt --generator own", ["special tokens", "language code"]),
    (f"{TRANSFER} --model gpt2 --method patt --generator own", ["own: this generator was made for another model"]),
    (f"{TRANSFER} --sides left", ["--sides", "'left'", "encoder,decoder"]),
    (f"{TRANSFER} --model gpt2 --sides encoder,decoder", ["gpt2", "no encoder"]),
    (f"{TRANSFER} --model mbart", ["lacks special tokens", "language code (de_DE", "Learn a vocabulary like"]),
    (f"{TRANSFER} --model no-weights", ["no-weights: no weights in safetensors format"]),
    (f"{TRANSFER} --vocab ./absent", ["absent: no such model directory"]),
    (f"{TRANSFER} --out gpt2", ["gpt2: exists and is not an empty directory"]),
    (f"{TRANSFER} --seed -1", ["--seed", "'-1'"]),
    (f"{GENERATE} --beam -1", ["--beam", "'-1'", "from 1"]),
    (f"{GENERATE} --beam 5000", ["--beam", "from 1 to 1000", "'5000'"]),
    (f"{GENERATE} --beam 2.5", ["--beam", "'2.5'", "whole number"]),
    (f"{GENERATE} --batch-size 0", ["--batch-size", "'0'"]),
    (f"{GENERATE} --input absent.txt", ["absent.txt: no such file"]),
    (f"{GENERATE} --input broken.txt", ["broken.txt:3: not UTF-8"]),
    (f"{GENERATE} --model no-weights", ["no-weights: no weights in safetensors format"]),
    (f"{GENERATE} --max-tokens 3", ["--max-tokens", "has an encoder"]),
    (f"{GENERATE} --model gpt2 --max-tokens 0", ["--max-tokens", "'0'"]),
    (f"{GENERATE} --languages klingon", ["--languages", "'klingon'", "en-de"]),
    (f"{GENERATE} --languages en-", ["--languages", "'en-'", "en-de"]),
    (f"{GENERATE} --languages de", ["--languages", "'de'", "two language codes"]),
    (f"{GENERATE} --model mbart", ["--languages: this model", "no languages are named", "de_DE, en_XX"]),
    (
        "generate --model mbart --input codes.txt --languages en-de",
        ["line 2: the text begins with the language code de_DE"],
    ),
    ("generate --model bert --input text.txt", ["bert: bert models write no text", "`subgraft assemble`"]),
    (f"{GENERATE} --model mbart --languages en-fr", ["no language code for 'fr'", "It has: de_DE, en_XX"]),
    (f"{GENERATE} --model models:/absent@champion", ["no run has been recorded here", "SUBGRAFT_HOME"]),
    (
        "evaluate --hypotheses text.txt --references tokens.txt",
        ["text.txt and tokens.txt: 50 hypotheses but 2 references"],
    ),
    ("evaluate --hypotheses empty.txt --references empty.txt", ["nothing to score"]),
    ("evaluate --hypotheses absent.txt --references text.txt", ["absent.txt: no such file"]),
    ("evaluate --model mbart --references text.txt", ["evaluated on --sources"]),
    (
        "evaluate --model absent --sources text.txt --references tokens.txt",
        ["text.txt and tokens.txt: 50 sources but 2 references"],
    ),
    ("models list", ["no run has been recorded here"]),
    ("models pull models:/absent@champion --out a/b/new", ["no run has been recorded here"]),
    ("models pull models:/absent@champion --out vocabulary", ["vocabulary: exists and is not an empty directory"]),
    ("models promote absent/3", ["absent/3: a model's name was expected"]),
    ("models promote absent --level 1", ["--level", "'1'", "between 0 and 1"]),
    ("fit gpt2 --text text.txt --out a/b/new --hours 1_0", ["--hours", "'1_0'", "above zero"]),
    ("models promote absent --level 0.0001", ["--level: with 1,000 samples", "--samples"]),
    ("store gc --apply", ["--keep"]),
    ("store gc --keep absent.yaml --apply", ["absent.yaml"]),
    ("store gc --keep seeds=[1] --apply", ["'seeds=[1]' is not a configuration file"]),
    ("store gc --keep config.yaml --older-than -1", ["--older-than", "'-1'"]),
    ("corpora check absent", ["absent: no such file or folder", "SUBGRAFT_DATA"]),
    ("corpora check vocabulary", ["vocabulary: contains no corpus", "{train,dev,test}.en"]),
    ("corpora check pairs --languages en-fr", ["pairs: train.fr is missing"]),
    ("corpora check law --languages en-fr", ["English and German", "en to fr"]),
    ("corpora check pairs --languages English", ["--languages", "'English'"]),
    ("corpora check law --languages en,de", ["--languages", "built-in corpus is of two languages"]),
    ("corpora check pairs --languages en,fr,de", ["pairs: train.fr is missing"]),
    ("corpora check config.yaml:absent", ["config.yaml: no corpus 'absent'", "upstream, downstream"]),
    ("corpora check unequal", ["unequal/train.en: 6 and", "unequal/train.de: 5", "line by line"]),
    ("corpora get unequal --out a/b/new", ["unequal/train.en: 6 and", "unequal/train.de: 5"]),
    ("corpora get not-utf8 --out a/b/new", ["not-utf8/dev.de:3: not UTF-8"]),
    ("corpora get nothing --out a/b/new", ["an empty corpus", "nothing/train.en: 0"]),
    ("corpora get one-sided --out a/b/new", ["one-sided: test.de is missing, the other side is there"]),
    ("corpora get pairs --out vocabulary", ["vocabulary: exists and is not an empty folder"]),
    ("compare absent", ["no run has been recorded here"]),
    ("report absent --out new", ["no run has been recorded here"]),
    ("report config.yaml --out new", ["no report yet", "subgraft run"]),
    ("tracking", ["no run has been recorded here"]),
    ("tracking --port 70000", ["--port", "'70000'", "65535"]),
    ("plan absent.yaml", ["absent.yaml: no such configuration file"]),
    ("plan pairs", ["pairs: a configuration file was expected, this is a folder"]),
    ("plan config.yaml finetune.epoch=2", ["override finetune.epoch=2: finetune.epoch: unknown field", "'epochs'"]),
    ("plan config.yaml finetune.epochs=two", ["finetune.epochs: expected a whole number", '"two"']),
    (
        "plan config.yaml upstream.continue_pretraining=true",
        ["upstream.continue_pretraining needs upstream.checkpoint, which is missing"],
    ),
    ("plan config.yaml nonsense", ["override nonsense: expected key=value"]),
    ("plan config.yaml --plan", ["plan: unknown option --plan"]),
]


@pytest.mark.parametrize(("line", "fragments"), MISTAKES, ids=[line or "nothing" for line, _ in MISTAKES])
def test_mistake(line: str, fragments: list[str], workshop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refusal(workshop, capsys, *words(line))
    assert [fragment for fragment in fragments if fragment not in message] == [], message


# The text of a configuration to replace, its replacement, and fragments of the message. `run` must report all of them
# before anything is written, so it gets the same arguments as `plan`.
CONFIGURED = [
    ("name: tiny", "name: tiny\ncolour: blue", ["config.yaml:2: colour: unknown field", "known: name"]),
    ("{epochs: 1}", "{epoch: 1}", ["config.yaml:8: finetune.epoch: unknown field; did you mean 'epochs'?"]),
    ("{epochs: 1}", "{epochs: 1.5}", ["config.yaml:8: finetune.epochs: expected a whole number, found 1.5"]),
    ("{epochs: 1}", '{epochs: "1"}', ["config.yaml:8: finetune.epochs: expected a whole number"]),
    ("{epochs: 1}", "{epochs: 1, epochs: 2}", ["config.yaml:8: finetune.epochs: given twice"]),
    ("name: tiny\n", "name: tiny\nname: other\n", ["config.yaml:2: name: given twice (first on line 1)"]),
    ("name: tiny\n", "", ["name: required, but not given"]),
    ("name: tiny", "name: [tiny", ["config.yaml:", "not YAML"]),
    (
        "initialiser: avg",
        "initialiser: avgg",
        ["config.yaml:10: systems.0.initialiser", "did you mean 'avg'?", *METHODS],
    ),
    ("initialiser: avg", "initialiser: avg, kd_weight: 0.5", ["config.yaml:10: systems.0", "kd_weight applies to"]),
    (
        "initialiser: avg",
        "vocabulary: upstream, initialiser: avg",
        ["config.yaml:10: systems.0", "leave out the initialiser"],
    ),
    (
        "initialiser: avg",
        "pretraining: none, initialiser: avg",
        ["config.yaml:10: systems.0", "made with its vocabulary"],
    ),
    ("initialiser: avg", "pretraining: sampled", ["config.yaml:10: systems.0", "new tokens need an initialiser"]),
    (
        "initialiser: avg",
        "initialiser: token-distillation, copy_shared_tokens: false",
        ["config.yaml:10: systems.0", "new tokens only"],
    ),
    (
        "initialiser: avg",
        "initialiser: likelihood-matching, copy_shared_tokens: false",
        ["systems.0", "new tokens only"],
    ),
    (
        "initialiser: avg",
        "initialiser: avg, starts_from: patt",
        ["systems.0", "starts_from is for systems of likelihood"],
    ),
    (
        "initialiser: avg",
        "initialiser: likelihood-matching, kd_weight: 0.5",
        ["config.yaml:10: systems.0", "kd_weight applies to"],
    ),
    (
        "initialiser: avg}",
        "initialiser: likelihood-matching}\nsides: [encoder, decoder]",
        ["likelihood-matching learns what a decoder predicts", "sides: [decoder]"],
    ),
    (
        "initialiser: avg}",
        "initialiser: likelihood-matching}\nlikelihood_matching: {boundary_threshold: 1.0}",
        ["likelihood_matching.boundary_threshold", "less than 1"],
    ),
    (
        "initialiser: avg",
        "vocabulary: upstream, copy_shared_tokens: false",
        ["config.yaml:10: systems.0", "without one there are no new rows"],
    ),
    (
        "initialiser: avg",
        "initialiser: avg, generator_steps: 5",
        ["config.yaml:10: systems.0", "generator_steps applies to"],
    ),
    (
        "initialiser: avg",
        "vocabulary: upstream, vocabulary_size: 90",
        ["config.yaml:10: systems.0", "vocabulary_size sets"],
    ),
    ("initialiser: avg", "pretraining: joint-vocabulary, vocabulary_size: 90", ["systems.0", "vocabulary_size sets"]),
    ("initialiser: avg", "vocabulary: upstream, vocabulary_min_count: 2", ["systems.0", "vocabulary_min_count sets"]),
    (
        "initialiser: avg",
        "vocabulary: upstream, rare_tokens: {l2_to_init: 2.0}",
        ["systems.0", "rare_tokens is about new embeddings"],
    ),
    (
        "{epochs: 1}",
        "{epochs: 1, rare_tokens: {min_count: 0}}",
        ["finetune.rare_tokens.min_count", "greater than or equal"],
    ),
    (
        "initialiser: avg}",
        "initialiser: avg, rare_tokens: {l2_to_init: 2.0}}\nruntime: {zero_stage: 2}",
        ["DeepSpeed cannot train single rows", "runtime.zero_stage"],
    ),
    (
        "name: tiny",
        "name: tiny\npretrain: {rare_tokens: {l2_to_init: 2.0}}",
        ["pretrain.rare_tokens: unknown field; only finetune can have it"],
    ),
    (
        "name: tiny",
        "name: tiny\nintrinsic: {tokens: 0}",
        ["config.yaml:2: intrinsic.tokens", "greater than or equal to 1"],
    ),
    (
        "initialiser: avg}",
        "vocabulary: upstream}\nintrinsic: {tokens: 5}",
        ["intrinsic measures systems with an initialiser"],
    ),
    (
        "initialiser: avg}",
        "initialiser: token-distillation}\nintrinsic: {tokens: 5}",
        [
            "intrinsic measures systems with an initialiser other than token-distillation, attention-influence, "
            "likelihood-matching, vocadt"
        ],
    ),
    (
        "initialiser: avg}",
        "initialiser: token-distillation}\ntoken_distillation_training: {embedding_learning_rate: 0.1}",
        ["token_distillation_training.embedding_learning_rate: unknown field; only finetune can have it"],
    ),
    (
        "initialiser: avg}",
        "initialiser: avg, tie_to_sources: true, embedding_learning_rate: 0}",
        ["system avg: tie_to_sources trains embeddings, which embedding_learning_rate: 0 freezes"],
    ),
    (
        "finetune: {epochs: 1}\nsystems:\n  - {name: avg, initialiser: avg}",
        "finetune: {embedding_learning_rate: 0}\nsystems:\n"
        "  - {name: avg, initialiser: avg, embeddings_only_fraction: 0.5}",
        ["system avg: embeddings_only_fraction trains embeddings"],
    ),
    (
        "finetune: {epochs: 1}\nsystems:\n",
        "finetune: {train: new-rows}\nsystems:\n  - {name: plain, vocabulary: upstream}\n",
        ["system plain has no new rows for train: new-rows: give it a `train: all` of its own"],
    ),
    (
        "initialiser: avg}",
        "initialiser: avg, train: new-rows, embedding_learning_rate: 0}",
        ["system avg: train: new-rows trains embeddings, which embedding_learning_rate: 0 freezes"],
    ),
    (
        "initialiser: avg}",
        "initialiser: avg, train: body, embedding_learning_rate: 0.1}",
        ["system avg: train: body freezes the embeddings: leave out embedding_learning_rate"],
    ),
    (
        "initialiser: avg}",
        "initialiser: avg, train: body, rare_tokens: {l2_to_init: 2}}",
        ["system avg: train: body freezes the embeddings: leave out rare_tokens"],
    ),
    (
        "finetune: {epochs: 1}\nsystems:\n  - {name: avg, initialiser: avg}",
        "finetune: {train: new-rows}\nsystems:\n  - {name: avg, initialiser: avg, tie_to_sources: true}",
        ["system avg: tie_to_sources trains all embeddings: it needs `train: all`, not `new-rows`"],
    ),
    (
        "initialiser: avg}",
        "initialiser: avg, embeddings_only_fraction: 0.5, train: body}",
        ["system avg: embeddings_only_fraction trains all embeddings: it needs `train: all`, not `body`"],
    ),
    (
        "initialiser: avg}",
        "initialiser: avg, tie_to_sources: true, train: adapters}",
        ["system avg: tie_to_sources trains all embeddings: it needs `train: all`, not `adapters`"],
    ),
    (
        "initialiser: avg}",
        "initialiser: avg, train: adapters}\nruntime: {zero_stage: 3}",
        ["system avg has train: adapters, which runtime.zero_stage 3 cannot train: use 2"],
    ),
    (
        "initialiser: avg}",
        "initialiser: avg, train: new-rows}\nruntime: {zero_stage: 3}",
        ["system avg has train: new-rows, which runtime.zero_stage 3 cannot train: use 2"],
    ),
    (
        "finetune: {epochs: 1}",
        "finetune: {evaluate_at: [5, 5]}",
        ["config.yaml:8: finetune", "evaluate_at must increase"],
    ),
    (
        "finetune: {epochs: 1}",
        "finetune: {max_steps: 9, evaluate_at: [5, 10]}",
        ["evaluate_at 10 is beyond max_steps 9"],
    ),
    (
        "finetune: {epochs: 1}\nsystems:\n  - {name: avg, initialiser: avg}",
        "finetune: {evaluate_at: [5]}\nsystems:\n  - {name: avg, initialiser: avg, embeddings_only_fraction: 0.5}",
        ["system avg: embeddings_only_fraction splits finetuning, so finetune.evaluate_at does not apply"],
    ),
    (
        "finetune: {epochs: 1}\nsystems:\n  - {name: avg, initialiser: avg}",
        "finetune: {batch_size_schedule: [{step: 5, batch_size: 9}]}\nsystems:\n"
        "  - {name: avg, initialiser: avg, embeddings_only_fraction: 0.5}",
        ["system avg: embeddings_only_fraction splits finetuning, so finetune.batch_size_schedule does not apply"],
    ),
    (
        "finetune: {epochs: 1}",
        "pretrain: {max_train_examples: 5}",
        ["pretrain.max_train_examples: unknown field; only finetune can have it"],
    ),
    (
        "finetune: {epochs: 1}",
        "generator_training: {layer_decay: 0.9}",
        [
            "generator_training.layer_decay: unknown field; only pretrain, embedding_warmup_training, "
            "multitask_training and finetune can have it"
        ],
    ),
    ("{epochs: 1}", "{epochs: 1, schedule: triangular}", ["finetune.schedule", "'inverse-square-root', 'linear'"]),
    (
        "{epochs: 1}",
        "{epochs: 1, optimizer: adamax, weight_decay: 0.1}",
        ["adamax has no decoupled weight decay", "leave out"],
    ),
    ("{epochs: 1}", "{epochs: 1, select: last, patience: 2}", ["finetune: `select: last` ignores", "patience: null"]),
    (
        "{epochs: 1}",
        "{epochs: 1, dropout_schedule: [{step: 9, dropout: 0.1}, {step: 3, dropout: 0.0}]}",
        ["config.yaml:8: finetune: dropout_schedule must increase"],
    ),
    (
        "{epochs: 1}",
        "{epochs: 1, dropout_schedule: [{step: 9, dropout: 1.0}]}",
        ["finetune.dropout_schedule.0.dropout", "less than 1"],
    ),
    ("initialiser: avg}", "initialiser: avg, learning_rate: 0}", ["systems.0.learning_rate", "greater than 0"]),
    ("name: tiny", "name: tiny\nseeds: [1, 1]", ["seeds must be distinct"]),
    (
        "name: tiny",
        "name: tiny\nmodel: {encoder_layers: 1000000000}",
        ["config.yaml:2: model.encoder_layers", "less than or equal to 1000, found 1000000000"],
    ),
    ("{epochs: 1}", "{epochs: 1, batch_size: 1e400}", ["finetune.batch_size", "cannot be read: '1e400'"]),
    ("{epochs: 1}", "{epochs: 1, learning_rate: .inf}", ["finetune.learning_rate", "cannot be read: '.inf'"]),
    ("name: tiny", "name: tiny\nseeds: [-1]", ["config.yaml:2: seeds.0", "greater than or equal to 0"]),
    ("name: tiny", "name: tiny\nsides: [decoder, decoder]", ["sides must be distinct"]),
    (
        "initialiser: avg",
        "initialiser: avg, embeddings_only_fraction: 1",
        ["systems.0.embeddings_only_fraction", "less than 1"],
    ),
    ("corpus: downstream", "corpus: law", ["downstream.corpus 'law' is not among corpora: upstream, downstream"]),
    ("  downstream: {folder: pairs}", "  downstream: {folder: absent}", ["absent: no such file or folder"]),
    ("  downstream: {folder: pairs}", "  downstream: {}", ["config.yaml:5", "exactly one of generated, folder"]),
    ("  downstream: {folder: pairs}", "  downstream: {folder: no-dev}", ["corpora.downstream", "dev split"]),
    ("  downstream: {folder: pairs}", "  downstream: {folder: one-sided}", ["test.de is missing"]),
    ("  downstream: {folder: pairs}", "  downstream: {folder: unequal}", ["train.en: 6", "train.de: 5"]),
    ("  downstream: {folder: pairs}", "  downstream: {folder: not-utf8}", ["dev.de:3: not UTF-8"]),
    ("  downstream: {folder: pairs}", "  downstream: {folder: nothing}", ["an empty corpus"]),
    ("  upstream: {folder: pairs}", "  upstream: {generated: everyday, limit: {train: 0}}", ["limit.train"]),
    ("target: de", "target: fr", ["train.fr is missing"]),
    ("{corpus: upstream", "{checkpoint: ./absent, corpus: upstream", ["./absent: no such model directory"]),
    ("{corpus: upstream", "{checkpoint: no-weights, corpus: upstream", ["no weights in safetensors format"]),
    (
        "{corpus: upstream",
        "{checkpoint: ./gpt2, corpus: upstream",
        ["a gpt2 model was not pretrained with the objective translation"],
    ),
    (
        "{corpus: upstream",
        "{objectives: [{kind: denoising}], corpus: upstream",
        ["denoising needs model.family mbart or bart"],
    ),
    ("{epochs: 1}", "{epochs: 1, max_length: 1000}", ["max_length of 1000 is beyond model.max_positions 512"]),
]


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize(("old", "new", "fragments"), CONFIGURED, ids=[new or "missing" for _, new, _ in CONFIGURED])
def test_mistake_in_a_configuration(
    command: str,
    old: str,
    new: str,
    fragments: list[str],
    workshop: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert CONFIG.count(old) == 1
    config = workshop / "config.yaml"
    config.write_text(CONFIG.replace(old, new), encoding="utf-8")
    try:
        message = refusal(workshop, capsys, command, "config.yaml")
    finally:
        config.write_text(CONFIG, encoding="utf-8")
    assert [fragment for fragment in fragments if fragment not in message] == [], message


def test_all_mistakes_of_a_configuration_are_reported_at_once(
    workshop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = CONFIG.replace("{epochs: 1}", "{epochs: one, epoch: 1}").replace("name: tiny", "name: 7")
    (tmp_path / "wrong.yaml").write_text(wrong, encoding="utf-8")
    lines = refusal(workshop, capsys, "plan", str(tmp_path / "wrong.yaml")).splitlines()
    assert [int(result[1]) for line in lines if (result := re.search(r"wrong\.yaml:(\d+): ", line))] == [1, 8, 8]


def test_a_configuration_that_is_not_utf8_is_reported_with_its_line(
    workshop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"name: tiny\n# Stra\xdfe\n")
    assert "latin.yaml:2: not UTF-8" in refusal(workshop, capsys, "plan", str(tmp_path / "latin.yaml"))


def test_weights_that_do_not_fit_are_refused(
    workshop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(workshop / "marian", tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").write_bytes(b"not weights")
    message = refusal(workshop, capsys, "generate", "--model", str(tmp_path / "model"), "--input", "text.txt")
    assert f"{tmp_path / 'model'}: the weights cannot be loaded" in message

    config = json.loads((workshop / "marian" / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps({**config, "model_type": "blenderbot"}))
    message = refusal(workshop, capsys, "generate", "--model", str(tmp_path / "model"), "--input", "text.txt")
    assert "'blenderbot' are not supported" in message and "marian" in message


def test_the_console_script_exits_with_2(workshop: Path) -> None:
    before = everything(workshop)
    arguments = [str(SCRIPT), "vocab", "learn", "--text", "broken.txt", "--size", "60", "--out", "a/new"]
    ended = subprocess.run(arguments, cwd=workshop, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.splitlines() == [
        "subgraft: broken.txt:3: not UTF-8: byte 0xdf at byte 5 of the line",
        "  Convert the file to UTF-8.",
    ]
    assert everything(workshop) == before


def test_text_on_standard_input_that_is_not_utf8_is_reported_with_its_line(workshop: Path) -> None:
    arguments = [sys.executable, "-m", "subgraft", "generate", "--model", "marian"]
    ended = subprocess.run(arguments, cwd=workshop, input=b"good\nb\xe4d\n", capture_output=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert ended.stderr.decode().splitlines()[0] == "subgraft: standard input:2: not UTF-8"


def test_a_full_disk_is_the_worlds_failure(workshop: Path, tmp_path: Path) -> None:
    """In a name space of its own, where this user may make one and mount a disk of 16 KiB in it."""
    small = tmp_path / "small"
    small.mkdir()
    mount = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec"]
    mounted = f"mount -t tmpfs -o size=16k none {small}"
    allowed = subprocess.run([*mount, mounted], capture_output=True, text=True, check=False)
    if allowed.returncode:
        pytest.skip(f"a full disk needs a mount, which is not permitted here: {allowed.stderr.strip()}")
    transfer = f"{SCRIPT} transfer --model marian --vocab vocabulary --method avg --out {small}/model"
    command = f"{mounted}; {transfer} || echo ended with $?; ls -A {small}"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [*mount, command], cwd=workshop, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.stdout == "ended with 1\n"
    assert f"subgraft: {small}/model: no space left on the device; nothing was written" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_full_disk_behind_the_output_is_named(workshop: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [str(SCRIPT), "corpora", "list"], cwd=workshop, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ended.returncode == 1 and ended.stderr.startswith("subgraft: standard output: no space left on the device")
    assert "Traceback" not in ended.stderr and "Exception" not in ended.stderr


def test_a_full_disk_is_looked_for_where_an_error_names_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The temporary folder is one of a disk without room, and what was asked for lies elsewhere."""
    small = tmp_path / "small"
    small.mkdir()
    script = (
        "import errno, tempfile; from pathlib import Path; from subgraft.orchestration.store.disk import full_disk;"
        "tempfile.tempdir = r'" + str(small) + "';"
        "print(full_disk(OSError(errno.ENOSPC, 'No space left on device'), Path(r'" + str(tmp_path) + "')).where)"
    )
    mounted = f"mount -t tmpfs -o size=16k none {small}"
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", f'{mounted}; "$@"', "sh"]
    ended = subprocess.run([*command, sys.executable, "-c", script], capture_output=True, text=True, check=False)
    if "unshare" in ended.stderr or "mount" in ended.stderr:
        pytest.skip(f"a full disk needs a mount, which is not permitted here: {ended.stderr.strip()}")
    assert str(small) in ended.stdout.strip().split(", ")
