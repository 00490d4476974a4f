"""The stage: same bytes from the same recipe, exact resume, its own translations, starts; and the transfer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from new_vocabularies import LANGUAGES, TEXTS, new_vocabulary, upstream
from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning
from subgraft.config.settings_base import SideName
from subgraft.config.training import TrainingSettings
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.fields import pair_fields
from subgraft.embeddings.generators.generator import Generator, GeneratorOrigin, save_generators, table_digest
from subgraft.embeddings.initialisers.learned_embeddings import LearnedEmbeddings
from subgraft.embeddings.learned_rows.likelihood_matching import match_likelihood
from subgraft.embeddings.methods.likelihood_matching import LikelihoodMatchingSettings, LikelihoodMatchingStage
from subgraft.embeddings.methods.method import StartName
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import side as side_of
from subgraft.pipeline.compute import transfer
from subgraft.pipeline.stages.models import TransferStage
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.engine import PlainEngine
from subgraft.training.loop import Trainer
from subgraft.training.objectives.compute.seq2seq import Seq2SeqData, Seq2SeqLoss
from subgraft.training.objectives.compute.translation import Translation
from watched import KilledError, Watched

STEPS = 6
NOWHERE: Any = None  # a transfer does not look at its context


def written(family: str, place: Path) -> dict[str, Path]:
    for split, pairs in (("train", TEXTS[:40]), ("dev", TEXTS[40:50])):
        for at, language in enumerate(("en", "de")):
            (place / f"{split}.{language}").write_text("".join(f"{pair[at]}\n" for pair in pairs))
    build(CorpusSource(folder=str(place)), LANGUAGES, Cleaning(), place / "corpus")
    upstream(family).save(place / "model")
    new_vocabulary(family, "decoder").save(place / "decoder")
    return {"model": place / "model", "corpus": place / "corpus", "vocabulary/decoder": place / "decoder"}


@pytest.fixture(scope="module", params=["marian", "mbart"])
def inputs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return written(request.param, tmp_path_factory.mktemp(request.param))


def recipe(starts_from: StartName = "mean", **changes: object) -> LikelihoodMatchingStage:
    training = TrainingSettings(
        max_steps=STEPS, batch_size=300, max_length=40, learning_rate=0.01, warmup_steps=2, dev_sentences=8
    )
    matching = LikelihoodMatchingSettings.model_validate(changes)
    return LikelihoodMatchingStage(
        languages=LANGUAGES, starts_from=starts_from, max_similar=10, matching=matching, training=training, seed=1
    )


def learn(
    place: Path, inputs: dict[str, Path], chosen: LikelihoodMatchingStage | None = None, die_at: int | None = None
) -> tuple[dict[str, Any], list[int]]:
    (place / "out").mkdir(parents=True, exist_ok=True)
    context = Watched(place / "work", die_at, "train_matching")
    summary: Any = match_likelihood(chosen or recipe(), inputs, place / "out", context)["decoder"]
    return summary, context.steps


def contents(folder: Path) -> dict[str, bytes]:
    """Everything but curves, which tell seconds."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith("curve"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def trained_generator(inputs: dict[str, Path], place: Path) -> Path:
    bundle = Bundle.load(inputs["model"])
    table = side_of(bundle.model, "decoder").input.weight
    generator = Generator("patt", table.shape[1])
    torch.manual_seed(3)
    torch.nn.init.normal_(generator.weight, std=5.0)
    place.mkdir()
    origin = GeneratorOrigin(table_digest(table), bundle.decoder.fingerprint, 10)
    save_generators({"decoder": generator}, {"decoder": origin}, place)
    return place


def test_the_same_recipe_gives_the_same_bytes_and_a_killed_run_does_too(
    inputs: dict[str, Path], tmp_path: Path
) -> None:
    _, steps = learn(tmp_path / "one", inputs)
    assert steps == [*range(1, STEPS + 1)]
    learn(tmp_path / "two", inputs)
    with pytest.raises(KilledError):
        learn(tmp_path / "killed", inputs, die_at=4)
    _, resumed = learn(tmp_path / "killed", inputs)
    assert resumed == [4, 5, 6], "only what came after the last checkpoint is done again"
    expected = contents(tmp_path / "one" / "out")
    assert "decoder/distilled_rows.safetensors" in expected
    assert contents(tmp_path / "two" / "out") == contents(tmp_path / "killed" / "out") == expected


def test_the_summary_reports_learnt_tokens_and_divergences(inputs: dict[str, Path], tmp_path: Path) -> None:
    summary, _ = learn(tmp_path, inputs)
    distilled = LearnedEmbeddings.load(tmp_path / "out" / "decoder")
    assert summary["trainable"] == len(distilled.tokens) > summary["in_text"] > 0
    assert summary["steps"] == STEPS and summary["spans"] > summary["sentences"] > 0 == summary["unknown_spans"]
    assert 0 < summary["divergence_after"] < summary["divergence_before"]
    assert not [name for name in summary if "translat" in name]


def test_a_transfer_takes_the_systems_of_all_tables(inputs: dict[str, Path], tmp_path: Path) -> None:
    learn(tmp_path, inputs)
    (tmp_path / "model").mkdir()
    made = TransferStage(method="likelihood-matching", sides=("decoder",), max_similar=10, seed=0)
    directories = {name: path for name, path in inputs.items() if name != "corpus"} | {"distilled": tmp_path / "out"}
    summary: Any = transfer.run_transfer(made, directories, tmp_path / "model", NOWHERE)
    distilled, decoder = (
        LearnedEmbeddings.load(tmp_path / "out" / "decoder"),
        side_of(Bundle.load(tmp_path / "model").model, "decoder"),
    )
    assert torch.equal(decoder.input.weight[distilled.tokens], distilled.rows)
    assert decoder.bias is not None and torch.equal(decoder.bias.flatten()[distilled.tokens], distilled.others["bias"])
    before = Bundle.load(inputs["model"])
    vocabulary = new_vocabulary(before.model.config.model_type, "decoder")
    means = side_of(
        transplant(before.model, before.tokenizers, {"decoder": vocabulary}, Method("mean")).model, "decoder"
    )
    rest = torch.ones(len(vocabulary), dtype=torch.bool).index_fill(0, distilled.tokens, False)
    assert torch.equal(decoder.input.weight[rest], means.input.weight[rest])
    assert means.bias is not None and torch.equal(decoder.bias.flatten()[rest], means.bias.flatten()[rest])
    of_decoder = summary["sides"]["decoder"]
    assert sum(of_decoder["fallbacks"].values()) == of_decoder["unseen"] - len(distilled.tokens)
    with pytest.raises(UserError, match="rows are of likelihood-matching, not of token-distillation"):
        other = TransferStage(method="token-distillation", sides=("decoder",), max_similar=10, seed=0)
        transfer.run_transfer(other, directories, tmp_path / "other", NOWHERE)


@pytest.mark.parametrize("start", ["avg", "patt"])
def test_training_may_begin_with_another_initialiser_s_rows(
    start: StartName, inputs: dict[str, Path], tmp_path: Path
) -> None:
    generator = trained_generator(inputs, tmp_path / "generator") if start == "patt" else None
    directories = inputs | ({"generator": generator} if generator else {})
    tiny = recipe(start)
    tiny = tiny.model_copy(
        update={"training": tiny.training.model_copy(update={"learning_rate": 1e-9, "max_steps": 1})}
    )
    learn(tmp_path / start, directories, tiny)
    distilled, bundle = LearnedEmbeddings.load(tmp_path / start / "out" / "decoder"), Bundle.load(inputs["model"])
    target: dict[SideName, Tokenizer] = {"decoder": new_vocabulary(bundle.model.config.model_type, "decoder")}
    model = transplant(bundle.model, bundle.tokenizers, target, Method(start, generator)).model
    torch.testing.assert_close(distilled.rows, side_of(model, "decoder").input.weight[distilled.tokens].detach())


def able(place: Path) -> Path:
    """A Marian that has learnt to translate a little."""
    bundle = upstream("marian")
    examples = Translation(TEXTS, bundle.encoder, bundle.decoder, bundle.sequence_format(LANGUAGES), 40)
    settings = TrainingSettings(max_steps=120, batch_size=600, max_length=40, learning_rate=0.01, warmup_steps=5)
    loss = Seq2SeqLoss(bundle.model)
    data, engine = Seq2SeqData(examples, *bundle.padding), PlainEngine(loss, settings, torch.device("cpu"))
    Trainer(loss, {"loss": 1.0}, data, settings, engine, Checkpoints(place / "checkpoints"), seed=1).run()
    bundle.save(place)
    return place


def test_its_own_translations_take_the_place_of_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed reference changes nothing; chunks survive a kill, are not made again, and their cost is reported."""
    monkeypatch.setattr("subgraft.training.chunked_translation.CHUNK", 16)
    (tmp_path / "given").mkdir()
    inputs = written("marian", tmp_path / "given") | {"model": able(tmp_path / "able")}
    own = recipe(text="own-translations")
    with pytest.raises(KilledError):
        learn(tmp_path / "one", inputs, own, die_at=2)
    files = sorted((tmp_path / "one" / "work" / "translations").rglob("*.json"))
    assert [path.name for path in files] == ["000000.json", *(f"{number:06d}.json" for number in range(3))]
    times = [path.stat().st_mtime_ns for path in files]
    summary, _ = learn(tmp_path / "one", inputs, own)
    assert times == [path.stat().st_mtime_ns for path in files]
    assert summary["translated"] == 48 and 0 <= summary["cut_translations"] <= 48
    seconds = sum(json.loads(path.read_text())["seconds"] for path in files)
    assert summary["translation_seconds"] == pytest.approx(seconds) and seconds > 0
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for path in inputs["corpus"].iterdir():
        text = path.read_text()
        (corpus / path.name).write_text(text if path.suffix != ".target" else "etwas anderes.\n" * text.count("\n"))
    learn(tmp_path / "two", inputs | {"corpus": corpus}, own)
    assert contents(tmp_path / "one" / "out") == contents(tmp_path / "two" / "out")


def test_a_text_without_any_new_token_leaves_nothing_to_learn(inputs: dict[str, Path], tmp_path: Path) -> None:
    bundle = Bundle.load(inputs["model"])
    bundle.decoder.save(tmp_path / "own")
    summary, steps = learn(tmp_path, {**inputs, "vocabulary/decoder": tmp_path / "own"})
    assert steps == []
    nothing = {"steps": 0, "trainable": 0, "in_text": 0, "sentences": 0, "spans": 0, "unknown_spans": 0}
    assert summary == nothing
    assert len(LearnedEmbeddings.load(tmp_path / "out" / "decoder").tokens) == 0


def test_made_pairs_are_read_for_what_the_pairs_lack(inputs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    for at, field in enumerate(("source", "target")):
        lines = "".join(f"{pair[at]}\n" for pair in TEXTS[60:160])
        (tmp_path / "made" / f"train.{field}").write_text(lines)
    Corpus(
        directory=tmp_path / "made",
        fields=pair_fields(LANGUAGES, two=True),
        generated=False,
        sizes={"train": 100},
        counts={},
        identity={},
    ).save()
    plain, _ = learn(tmp_path / "plain", inputs)
    more, _ = learn(tmp_path / "more", {**inputs, "synthetic": tmp_path / "made"})
    assert more["in_text"] > plain["in_text"]
    assert more["sentences"] > plain["sentences"]
    assert more["divergence_before"] == plain["divergence_before"], "dev is the pairs' alone"
