"""Models that are published: the folder, its card, and what a hub on this machine gets of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from finished import separate_bundle, split_mbart_bundle
from hubs import Hub, hub
from subgraft.config.corpora import Languages
from subgraft.interfaces.cli import main
from subgraft.modeling.exporting.publishing import METRICS, RECORD_NOTE, Publication, model_card
from subgraft.modeling.exporting.transformers import Loading
from subgraft.orchestration.tracking.model_registry import CARD

TOKEN = "hf_" + "planted" * 5
NAME = "court/law-en-de"
TRANSLATOR = Loading("AutoModelForSeq2SeqLM", False, False)
TAGS = {
    "experiment": "laws",
    "task": "translation",
    "base_model": "Helsinki-NLP/opus-mt-en-de",
    "test.BLEU": "15.4500",
    "signature.BLEU": "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0",
    "test.chrF": "42.1000",
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    separate_bundle().save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture(params=["large files apart", pytest.param("all in one commit", marks=pytest.mark.slow)])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hub]:
    (tmp_path / "hub").mkdir()
    with hub(tmp_path / "hub", TOKEN, large=request.param == "large files apart") as made:
        yield made


def push(server: Hub, model: Path, *options: str, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
    """Large files go by the protocol of before xet, which a hub still has; the others by the client's pipeline."""
    place = model.parent / "home"
    environment = {
        **os.environ,
        "HF_ENDPOINT": server.address,
        "HF_HOME": str(place),
        "HF_HUB_DISABLE_XET": "1" if server.large else "0",
        "HF_HUB_OFFLINE": "0",
        "HF_TOKEN": token,
    }
    command = [sys.executable, "-m", "subgraft", "push", str(model), NAME, *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=240)


def metadata(card: str) -> Mapping[str, Any]:
    result: Mapping[str, Any] = yaml.safe_load(card.split("---")[1])
    return result


def test_a_hub_gets_what_transformers_loads(server: Hub, model: Path, tmp_path: Path) -> None:
    options = ["--licence", "mit", "--languages", "en-de", "--base-model", "toys/en-de"]
    ended = push(server, model, *options, "--private")
    assert ended.returncode == 0, ended.stderr
    assert f"sent: {server.address}/{NAME}/commit/" in ended.stdout and TOKEN not in ended.stdout + ended.stderr
    assert main(["push", str(model), NAME, "--dry-run", "--out", str(tmp_path / "dry"), *options]) == 0
    sent = server.folder / NAME
    files = {path.name: path.read_bytes() for path in sent.iterdir()}
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "dry").iterdir()}
    assert server.private == {NAME} and bool(server.objects) == server.large
    assert not any(TOKEN.encode() in content for content in files.values())
    tokenizer, loaded = AutoTokenizer.from_pretrained(sent), AutoModelForSeq2SeqLM.from_pretrained(sent)
    assert loaded.generate(**tokenizer("thank you", return_tensors="pt"), max_length=5).shape[0] == 1
    message = metadata((sent / CARD).read_text(encoding="utf-8"))
    expected = {"base_model": "toys/en-de", "license": "mit", "language": ["en", "de"], "pipeline_tag": "translation"}
    assert expected.items() <= message.items() and "model-index" not in message


@pytest.mark.slow
def test_what_was_sent_before_is_replaced(server: Hub, model: Path) -> None:
    shard = server.folder / NAME / "model-00001-of-00002.safetensors"
    shard.parent.mkdir(parents=True)
    shard.write_bytes(b"of a larger model")
    (shard.parent / "notes.txt").write_text("somebody's", encoding="utf-8")
    ended = push(server, model)
    assert ended.returncode == 0, ended.stderr
    assert not shard.exists() and {"notes.txt", "model.safetensors"} <= {path.name for path in shard.parent.iterdir()}


def test_a_public_repository_gets_nothing_that_was_to_be_private(server: Hub, model: Path) -> None:
    (server.folder / NAME).mkdir(parents=True)
    ended = push(server, model, "--private")
    assert ended.returncode == 2 and "is public; nothing was sent" in ended.stderr
    assert not server.commits and not server.objects and not list((server.folder / NAME).iterdir())


@pytest.mark.slow
def test_a_token_that_the_hub_refuses_is_reported_and_not_shown(server: Hub, model: Path) -> None:
    other = "hf_" + "another" * 5
    ended = push(server, model, token=other)
    assert ended.returncode == 2 and "refuses this token (401)" in ended.stderr
    assert other not in ended.stdout + ended.stderr
    ended = push(server, model, token="")
    assert ended.returncode == 2 and "Set HF_TOKEN" in ended.stderr
    assert not any(server.folder.rglob("*.safetensors"))


def test_a_hub_that_is_away_is_a_failure_outside(model: Path, tmp_path: Path) -> None:
    with hub(tmp_path, TOKEN) as server:
        pass
    ended = push(server, model)
    assert ended.returncode == 1 and "could not be reached" in ended.stderr and "Traceback" not in ended.stderr


def test_scores_are_in_the_model_index_with_their_signatures() -> None:
    card = f"---\nlicense: unknown\n---\n\n# laws-en-de\n\nTold.\n{RECORD_NOTE}\n"
    made = model_card(Publication(NAME, None, None, Languages(source="en", target="de"), TAGS, card), TRANSLATOR)
    message = metadata(made)
    assert message["base_model"] == "Helsinki-NLP/opus-mt-en-de" and message["license"] == "unknown"
    ((index,),) = [entry["results"] for entry in message["model-index"]]
    (metric,) = index["metrics"]
    assert (metric["type"], metric["value"]) == ("bleu", 15.45)
    assert metric["args"] == {"signature": TAGS["signature.BLEU"]}, "a score without a signature is left out"
    assert "Told." in made and RECORD_NOTE not in made and made.count("license:") == 1


def test_every_metric_has_a_name_on_the_hub() -> None:
    from subgraft.evaluation.metrics.scores import METRICS as KNOWN

    assert set(METRICS) == set(KNOWN)


def test_languages_are_described_by_files_and_remote_code_by_the_card(tmp_path: Path) -> None:
    split_mbart_bundle().save(tmp_path / "model")
    out = tmp_path / "out"
    command = ["push", str(tmp_path / "model"), NAME, "--dry-run", "--out", str(out)]
    assert main(command) == 2 and not out.exists(), "it has language codes, and nothing says which are meant"
    assert main([*command, "--languages", "en-de"]) == 0
    card = (out / CARD).read_text(encoding="utf-8")
    assert card.count("trust_remote_code=True") == 2


@pytest.mark.parametrize(
    "wrong",
    [
        ["--dry-run"],
        ["--out", "somewhere"],
        ["--dry-run", "--out", "somewhere", "--licence", "My own!"],
        ["--dry-run", "--out", "model"],
    ],
)
def test_mistakes_are_reported_before_anything_is_written(
    wrong: list[str], model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    before = sorted(model.parent.rglob("*"))
    assert main(["push", "model", NAME, *wrong]) == 2
    assert sorted(model.parent.rglob("*")) == before


@pytest.mark.parametrize("name", ["law", "a/b/c", "court/..", "-court/law", "court/la w"])
def test_names_that_no_repository_has_are_refused(name: str, model: Path, tmp_path: Path) -> None:
    assert main(["push", str(model), "--dry-run", "--out", str(tmp_path / "out"), "--", name]) == 2
    assert not (tmp_path / "out").exists()
