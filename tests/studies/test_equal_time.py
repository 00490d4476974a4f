"""Equal time: a whole study of seconds; the same words are hidden under all vocabularies; what training never saw."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from equal_time import EVERYDAY, TESTAMENTS, NoisedLines, Restored, Watched, main, ways
from equal_time_report import Run, write
from subgraft.config.training import UniformTargets
from subgraft.subwords.vocabulary.learn import learn
from subgraft.training.objectives.compute.seq2seq import Seq2SeqLoss
from subgraft.training.objectives.compute.target_sampling import target_sampling
from toys import english, german, mbart, multilingual_tokenizer


@pytest.fixture
def corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    paths = [*EVERYDAY.values(), *(f"mono/bible-nt/{name}.txt.gz" for name in TESTAMENTS.values())]
    for place, name in enumerate(paths):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, "wt", encoding="utf-8") as handle:
            handle.write("\n".join(german(60) if place % 2 else english(60)) + "\n")
    monkeypatch.setenv("SUBGRAFT_DATA", str(tmp_path / "data"))
    return tmp_path


@pytest.mark.slow
def test_every_way_for_a_second(corpora: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = corpora / "out"
    asked = ["--out", str(out), "--sizes", "340", "380", "--seconds", "0.4", "--width", "16", "--batch", "400"]
    asked += ["--neighbours", "3", "--drawn", "10", "--rebuild-every", "5"]
    assert main([*asked, "--ways", "small", "nearest"]) == 0
    assert main(asked) == 0
    runs = {run.way: run for run in (Run(**json.loads(line)) for line in (out / "runs.jsonl").read_text().splitlines())}
    assert set(runs) == set(ways(3, 5, 10)) and (out / "equal_time.png").read_bytes()[:4] == b"\x89PNG"
    assert runs["small"].size == 340 and {run.size for name, run in runs.items() if name != "small"} == {380}
    assert runs["nearest, half"].parameters < runs["nearest"].parameters == runs["large"].parameters
    assert runs["large"].candidates == 380 and runs["large"].never == 0
    assert 0 < runs["nearest"].candidates < 380 and 0 < runs["nearest"].share_of_never < 1
    for run in runs.values():
        assert [point["seconds"] >= 0.05 * part for part, point in enumerate(run.curve, start=1)] == [True] * 8
    assert capsys.readouterr().out.count("| nearest |") == 2


def test_the_same_words_are_hidden_under_every_vocabulary() -> None:
    text = german(40)
    noised = []
    for size in (110, 160):
        tokenizer = learn(german() + english(), kind="bpe", size=size, mask=True, languages=["de_DE"])
        examples = NoisedLines(text, tokenizer, "de_DE", seed=3)
        noised.append([tokenizer.decode(examples.example(index, 2).source[:-2]) for index in range(len(examples))])
    assert noised[0] == noised[1] and any(a != b for a, b in zip(noised[0], text, strict=True))


def test_bits_and_shares_are_of_the_full_softmax() -> None:
    tokenizer, model = multilingual_tokenizer(), mbart().eval()
    restored = Restored({"de_DE": german(20), "en_XX": english(20)}, tokenizer)
    whole = restored.data.batch(np.arange(40), 0)
    with torch.no_grad():
        logits = model(
            input_ids=whole.input_ids,
            attention_mask=whole.attention_mask,
            decoder_input_ids=whole.decoder_input_ids,
        ).logits[whole.labels != -100]
    gold = whole.labels[whole.labels != -100]
    nats = torch.nn.functional.cross_entropy(logits, gold, reduction="sum").item()
    characters = sum(map(len, [*german(20), *english(20)]))
    assert restored.bits(Seq2SeqLoss(model)) == pytest.approx(nats / characters / np.log(2), rel=1e-5)
    tokens = torch.arange(len(tokenizer)) % 3 == 0
    assert restored.share(model, tokens) == pytest.approx(logits.softmax(1)[:, tokens].sum(1).mean().item(), rel=1e-5)


def test_what_was_a_candidate_is_counted() -> None:
    tokenizer, model = multilingual_tokenizer(), mbart()
    data = Restored({"de_DE": german(20)}, tokenizer).data
    watched = Watched(target_sampling(UniformTargets(drawn=5), model, 1), len(tokenizer))

    class Alone:
        rank, world, device = 0, 1, torch.device("cpu")

    prepared = [each for step in (0, 1) for each in watched.prepare([data.batch(np.arange(4), 0)], step, Alone())]  # type: ignore[arg-type]
    assert set(watched.seen.nonzero().flatten().tolist()) == {i for each in prepared for i in each.candidates.tolist()}
    assert watched.sizes == [len(each.candidates) for each in prepared]


def test_the_report_compares_after_equal_updates_too(tmp_path: Path) -> None:
    fast, slow = (
        Run(way, 1, 100, 10, 5.0, 3, 0.25, [{"updates": u * k, "seconds": k, "value": 9.0 - k} for k in range(1, 9)])
        for way, u in (("fast", 20), ("slow", 10))
    )
    markdown = write([fast, slow], tmp_path)
    cells = {line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")] for line in markdown.splitlines()}
    assert cells["fast"][6:10] == ["7.000", "5.000", "1.000", "5.000"]
    assert cells["slow"][6:10] == ["7.000", "5.000", "1.000", "1.000"]
    assert cells["fast"][-2] == "25.00 %"
