"""subgraft example: small files of every kind that commands read, and configurations of two small models."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from subgraft.base.errors import UserError
from subgraft.base.security.terminal_escaping import say
from subgraft.interfaces.cli.arguments import Commands

if TYPE_CHECKING:
    from subgraft.config.settings_base import Split
    from subgraft.data.sources.generated.corpus import Pair

LINES, TESTED, NEW, DOCUMENT = 3000, 100, 20, 20  # a document of so many lines
_EVERYDAY: Mapping[Split, int] = {"train": 8000, "dev": 200, "test": 200}


def add_to(commands: Commands) -> None:
    example = commands.add_parser("example", help="write small files with which every command can be tried")
    example.add_argument("directory", type=Path, metavar="DIR", help="absent or empty")
    example.set_defaults(command=write_example)


def write_example(arguments: argparse.Namespace) -> None:
    """Write the files, and say where their page is."""
    directory: Path = arguments.directory
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UserError("not an empty directory", where=str(directory), hint="Give a new one.")
    for name, content in files(directory).items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    say(f"{directory / 'README.md'} says what each file is for, with commands")


def files(directory: Path) -> Mapping[str, str]:
    """The contents of each file, by its name. Its page alone depends on the directory, which commands name."""
    from subgraft.data.sources.generated import pairs

    english, german = _sides(list(pairs("law", "train", LINES)))
    test_english, test_german = _sides(list(pairs("law", "test", TESTED + NEW)))
    everyday = {split: _sides(list(pairs("everyday", split, count)))[1] for split, count in _EVERYDAY.items()}
    return {
        "README.md": _README.format(d=directory),
        "contracts.en": _lines(english),
        "contracts.de": _lines(german),
        "test.en": _lines(test_english[:TESTED]),
        "test.de": _lines(test_german[:TESTED]),
        "new.en": _lines(test_english[TESTED:]),
        "contracts.txt": "\n".join(_lines(document) for document in _documents(german)),
        "domains.jsonl": _records(
            {"text": text, "label": label}
            for pair in zip(german[:800], everyday["train"][:800], strict=True)
            for text, label in zip(pair, ("law", "everyday"), strict=True)
        ),
        "chats.jsonl": _records(map(_chat, german)),
        **{f"everyday/{split}.de": _lines(lines) for split, lines in everyday.items()},
        **{f"chats/{split}.jsonl": _records(map(_chat, lines[:LINES])) for split, lines in everyday.items()},
        **{f"questions/{split}.jsonl": _records(map(_labelled, lines[:LINES])) for split, lines in everyday.items()},
        "decoder.yaml": _DECODER,
        "encoder.yaml": _ENCODER,
    }


def _labelled(sentence: str) -> dict[str, str]:
    return {"text": sentence, "label": "question" if sentence.endswith("?") else "statement"}


def _sides(pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
    return [english for english, _ in pairs], [german for _, german in pairs]


def _documents(lines: Sequence[str]) -> Iterator[list[str]]:
    remaining = iter(lines)
    while document := list(islice(remaining, DOCUMENT)):
        yield document


def _chat(sentence: str) -> dict[str, list[dict[str, str]]]:
    words = sentence.split()
    beginning, end = " ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])
    question = {"role": "user", "content": f"Wie geht es weiter? {beginning}"}
    return {"messages": [question, {"role": "assistant", "content": end}]}


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _records(records: Iterable[Mapping[str, object]]) -> str:
    return "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)


_README = """\
# Examples

English and German sentences that a grammar has made; nobody wrote them, and anybody may use them for anything. They
show how commands work, not that a method is better. `contracts` and `test` are pairs, line by line. Type the commands
where you typed `subgraft example`: what is trained is stored there.

A translator is in the registry after `make demo`, or after `subgraft run configs/quickstart.yaml` in a clone:

    subgraft fit models:/quickstart-en-de@champion --pairs {d}/contracts.en {d}/contracts.de --out {d}/fitted --quick
    subgraft generate --model {d}/fitted/model --input {d}/new.en --languages en-de
    subgraft evaluate --model {d}/fitted/model --sources {d}/test.en --references {d}/test.de --languages en-de
    subgraft advise models:/quickstart-en-de@champion --text {d}/contracts.de
    subgraft serve {d}/fitted/model

A small language model, which is pretrained here first (decoder.yaml). `contracts.txt` is text in documents:

    subgraft run {d}/decoder.yaml
    subgraft fit models:/example-decoder-de-de@champion --text {d}/contracts.txt \\
      --other {d}/everyday/test.de --out {d}/own --quick
    subgraft fit models:/example-decoder-de-de@champion --chat {d}/chats.jsonl --out {d}/assistant --quick
    subgraft generate --model {d}/own/model --input {d}/everyday/test.de

A small encoder (encoder.yaml). `domains.jsonl` has texts and their labels:

    subgraft run {d}/encoder.yaml
    subgraft fit models:/example-encoder-de-de@champion --labels {d}/domains.jsonl --out {d}/classifier --quick
    subgraft predict {d}/classifier/model --input {d}/everyday/test.de
"""
_DECODER = """\
# A small GPT-2 of everyday German, which learns to finish sentences in conversations.
name: example-decoder
preset: small
task: chat
languages: {source: de, target: de}
seeds: [1]

corpora:
  everyday: {folder: everyday}
  chats: {conversations: {folder: chats}}
chat:
  template: >-
    {% for message in messages %}{% if message.role == 'assistant' %}{{ ' ' + message.content + eos_token }}{% else
    %}{{ bos_token + message.content }}{% endif %}{% endfor %}

upstream:
  corpus: everyday
  objectives: [{kind: causal}]
  vocabulary: {kind: unigram, size: 800}
downstream:
  corpus: chats
  vocabulary: {kind: unigram, size: 800}

model: {family: gpt2, d_model: 128, layers: 2, ffn_dim: 256, max_positions: 1024}
pretrain: {epochs: 3, batch_size: 2000, learning_rate: 0.003, warmup_steps: 100, precision: fp32}
finetune: {epochs: 1, batch_size: 2000, learning_rate: 0.002, warmup_steps: 30, precision: fp32}

systems:
  - {name: plain, vocabulary: upstream}
evaluation: {speed_sentences: 16, test_sentences: 50}
"""
_ENCODER = """\
# A small BERT of everyday German, which learns to tell questions from statements.
name: example-encoder
preset: small
task: classification
languages: {source: de, target: de}
seeds: [1]

corpora:
  everyday: {folder: everyday}
  questions: {labelled: {folder: questions}}

upstream:
  corpus: everyday
  objectives: [{kind: masked}]
  vocabulary: {kind: wordpiece, size: 800}
downstream:
  corpus: questions
  vocabulary: {kind: wordpiece, size: 800}

model: {family: bert, d_model: 128, layers: 2, ffn_dim: 256, max_positions: 512}
pretrain: {epochs: 3, batch_size: 2000, learning_rate: 0.003, warmup_steps: 100, precision: fp32}
finetune: {epochs: 1, batch_size: 2000, learning_rate: 0.001, warmup_steps: 10, precision: fp32}

systems:
  - {name: plain, vocabulary: upstream}
evaluation: {speed_sentences: 16}
"""
