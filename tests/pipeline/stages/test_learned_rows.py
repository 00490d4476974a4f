"""Stages that learn rows: the same recipe gives the same bytes, also resumed; and the transfer that takes the rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from new_vocabularies import LANGUAGES, TEXTS, new_vocabulary, stage_inputs, upstream
from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName
from subgraft.config.training import TrainingSettings
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.fields import pair_fields
from subgraft.embeddings.generators.generator import Generator, GeneratorOrigin, save_generators, table_digest
from subgraft.embeddings.initialisers.learned_embeddings import LearnedEmbeddings
from subgraft.embeddings.methods.attention_influence import AttentionInfluenceSettings, AttentionInfluenceStage
from subgraft.embeddings.methods.likelihood_matching import LikelihoodMatchingSettings, LikelihoodMatchingStage
from subgraft.embeddings.methods.method import LearningStage, StartName
from subgraft.embeddings.methods.token_distillation import TokenDistillationSettings, TokenDistillationStage
from subgraft.embeddings.methods.vocadt import VocadtStage
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

BOTH: tuple[SideName, ...] = ("encoder", "decoder")
FAMILIES = ("marian", "mbart")
STEPS = 6
NOWHERE: Any = None  # a transfer does not look at its context


def token_distillation(layer: int | None = None, **fields: Any) -> LearningStage:
    return TokenDistillationStage(distillation=TokenDistillationSettings(layer=layer), **fields)


def attention_influence(layer: int | None = None, **fields: Any) -> LearningStage:
    return AttentionInfluenceStage(distillation=AttentionInfluenceSettings(layer=layer), **fields)


def likelihood_matching(starts_from: StartName = "mean", text: str = "references", **fields: Any) -> LearningStage:
    del fields["sides"]  # it has the decoder alone
    matching = LikelihoodMatchingSettings.model_validate({"text": text})
    return LikelihoodMatchingStage(starts_from=starts_from, max_similar=10, matching=matching, **fields)


@dataclass(frozen=True)
class Case:
    """What methods differ in.

    Attributes:
        rate: The learning rate.
        metric: Reported after every update.
        losses: Their names in the summary: before the training, and after it.
        learns_bias: Whether new tokens also get a bias in the decoder's output.
        learns_all: Whether tokens get rows that are not in the text.
        sides: Those that it trains.
        together: Whether it trains them in the same updates, and so reports one loss of both.
    """

    stage: Callable[..., LearningStage]
    rate: float
    metric: str
    losses: tuple[str, str]
    learns_bias: bool
    learns_all: bool
    sides: tuple[SideName, ...] = BOTH
    together: bool = False


_DISTANCES = ("distance_before", "distance_after")
CASES = {
    "token-distillation": Case(token_distillation, 0.003, "train_distillation", _DISTANCES, False, False),
    "attention-influence": Case(attention_influence, 0.003, "train_distillation", _DISTANCES, False, False),
    "likelihood-matching": Case(
        likelihood_matching, 0.01, "train_matching", ("divergence_before", "divergence_after"), True, True, ("decoder",)
    ),
    "vocadt": Case(VocadtStage, 0.01, "train_loss", ("loss_before", "loss_best"), True, True, together=True),
}
DISTILLATIONS = ("token-distillation", "attention-influence")
every_method = pytest.mark.parametrize("method", CASES)
every_family = pytest.mark.parametrize("family", FAMILIES)


def recipe(method: str, sides: tuple[SideName, ...] | None = None, **changes: Any) -> LearningStage:
    """The stage of a method. changes: of its training, and fields of its own."""
    case = CASES[method]
    training = TrainingSettings(
        max_steps=changes.pop("max_steps", STEPS),
        batch_size=300,
        max_length=40,
        learning_rate=changes.pop("rate", case.rate),
        warmup_steps=2,
        label_smoothing=0.0,
        dev_sentences=8,
    )
    return case.stage(languages=LANGUAGES, sides=sides or case.sides, training=training, seed=1, **changes)


@dataclass(frozen=True)
class Learnt:
    """A stage that ran: its inputs, the folder that it wrote, its summary, and the updates that it reported."""

    inputs: dict[str, Path]
    out: Path
    summary: dict[str, Any]
    steps: list[int]

    def rows(self, side: SideName = "decoder") -> LearnedEmbeddings:
        return LearnedEmbeddings.load(self.out / side)

    def contents(self) -> dict[str, bytes]:
        """Everything but curves, which tell seconds."""
        files = (path for path in self.out.rglob("*") if path.is_file() and not path.name.startswith("curve"))
        return {str(path.relative_to(self.out)): path.read_bytes() for path in files}


def learn(
    place: Path, inputs: dict[str, Path], method: str, die_at: int | None = None, stage: LearningStage | None = None
) -> Learnt:
    (place / "out").mkdir(parents=True, exist_ok=True)
    context = Watched(place / "work", die_at, CASES[method].metric)
    summary = (stage or recipe(method)).run(inputs, place / "out", context)
    return Learnt(inputs, place / "out", dict(summary), context.steps)


@pytest.fixture(scope="module")
def inputs_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Path]]:
    """The inputs of the stages, by family."""
    return cache(lambda family: stage_inputs(family, tmp_path_factory.mktemp(family)))


@pytest.fixture(scope="module")
def learnt(
    inputs_of: Callable[[str], dict[str, Path]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], Learnt]:
    """What a method learnt in a family's model: made once."""
    return cache(lambda family, method: learn(tmp_path_factory.mktemp(method), inputs_of(family), method))


def transferred(made: Learnt, out: Path, method: str, **inputs: Path) -> tuple[Bundle, dict[str, Any]]:
    out.mkdir()
    stage = TransferStage(method=method, sides=CASES[method].sides, max_similar=10, seed=0)
    directories = {name: path for name, path in made.inputs.items() if name != "corpus"}
    summary: Any = transfer.run_transfer(stage, directories | {"distilled": made.out} | inputs, out, NOWHERE)
    return Bundle.load(out), summary["sides"]


def means_of(made: Learnt, sides: tuple[SideName, ...]) -> Any:
    """The model with the rows that all trainings begin with."""
    before = Bundle.load(made.inputs["model"])
    vocabularies = {side: Tokenizer.load(made.inputs[f"vocabulary/{side}"]) for side in sides}
    return transplant(before.model, before.tokenizers, vocabularies, Method("mean")).model


@every_family
@every_method
def test_the_same_recipe_gives_the_same_bytes_and_a_killed_run_does_too(
    family: str, method: str, learnt: Callable[[str, str], Learnt], tmp_path: Path
) -> None:
    one, case = learnt(family, method), CASES[method]
    others = [] if case.together else [*range(1, STEPS + 1)] * (len(case.sides) - 1)
    assert one.steps == [*range(1, STEPS + 1), *others]
    with pytest.raises(KilledError):
        learn(tmp_path / "killed", one.inputs, method, die_at=4)
    resumed = learn(tmp_path / "killed", one.inputs, method)
    assert resumed.steps == [4, 5, 6, *others], "only what came after the last checkpoint is done again"
    expected = one.contents()
    assert {f"{side}/distilled_rows.safetensors" for side in case.sides} < set(expected)
    assert {path.split("/")[0] for path in expected} == set(case.sides)
    assert learn(tmp_path / "two", one.inputs, method).contents() == resumed.contents() == expected


@every_family
@every_method
def test_the_summary_reports_learnt_tokens_and_losses(
    family: str, method: str, learnt: Callable[[str, str], Learnt]
) -> None:
    made, case = learnt(family, method), CASES[method]
    for side in case.sides:
        reported = (
            made.summary | {"trainable": made.summary["trainable"][side]} if case.together else made.summary[side]
        )
        before, after = (reported[name] for name in case.losses)
        count = len(made.rows(side).tokens)
        assert reported["steps"] == STEPS and count > 20
        assert 0 < after < before or side == "encoder", "six updates may not be enough for one of influences"
        if method in DISTILLATIONS:
            assert reported["trained"] == count == reported["in_text"] < reported["trainable"]
        else:
            assert reported["trainable"] == count > reported.get("in_text", 1) > 0
        if method == "likelihood-matching":
            assert reported["spans"] > reported["sentences"] > 0 == reported["unknown_spans"]
            assert not [name for name in reported if "translat" in name]


@every_family
@every_method
def test_a_transfer_takes_the_rows_and_gives_the_others_the_mean(
    family: str, method: str, learnt: Callable[[str, str], Learnt], tmp_path: Path
) -> None:
    made, case = learnt(family, method), CASES[method]
    after, summary = transferred(made, tmp_path / "model", method)
    means = means_of(made, case.sides)
    for name in case.sides:
        learned, ours, mean = made.rows(name), side_of(after.model, name), side_of(means, name)
        assert torch.equal(ours.input.weight[learned.tokens], learned.rows)
        assert not torch.equal(mean.input.weight[learned.tokens], learned.rows)
        rest = torch.ones(len(ours.input.weight), dtype=torch.bool).index_fill(0, learned.tokens, False)
        assert torch.equal(ours.input.weight[rest], mean.input.weight[rest])
        fallbacks = sum(summary[name]["fallbacks"].values())
        assert fallbacks == summary[name]["unseen"] - len(learned.tokens) and (fallbacks == 0) is case.learns_all
        assert set(learned.others) == ({"bias"} if case.learns_bias and name == "decoder" else set())
        if ours.bias is not None and mean.bias is not None:
            bias = mean.bias.flatten().clone()
            bias[learned.tokens] = learned.others.get("bias", bias[learned.tokens])
            assert torch.equal(ours.bias.flatten(), bias)


@every_method
def test_rows_of_another_method_or_for_another_model_are_refused(
    method: str, learnt: Callable[[str, str], Learnt], tmp_path: Path
) -> None:
    made = learnt("marian", method)
    other = next(name for name in CASES if name != method)
    with pytest.raises(UserError, match=f"rows are of {method}, not of {other}"):
        transferred(made, tmp_path / "one", other)
    bundle = Bundle.load(made.inputs["model"])
    with torch.no_grad():
        side_of(bundle.model, "decoder").input.weight.add_(0.1)
    bundle.save(tmp_path / "other")
    with pytest.raises(UserError, match=r"distilled for another model's (en|de)coder"):
        transferred(made, tmp_path / "two", method, model=tmp_path / "other")


@every_family
@every_method
def test_a_vocabulary_without_new_tokens_leaves_nothing_to_learn(
    family: str, method: str, inputs_of: Callable[[str], dict[str, Path]], tmp_path: Path
) -> None:
    inputs = inputs_of(family)
    Bundle.load(inputs["model"]).decoder.save(tmp_path / "own")
    own = inputs | {"vocabulary/decoder": tmp_path / "own"}
    made = learn(tmp_path, own, method, stage=recipe(method, ("decoder",)))
    assert made.steps == [] and len(made.rows().tokens) == 0
    if method == "vocadt":
        assert made.summary == {"steps": 0, "trainable": {"decoder": 0}}
    else:
        assert made.summary["decoder"].items() >= {"steps": 0, "trainable": 0, "in_text": 0, "sentences": 0}.items()
        assert not any(made.summary["decoder"].values())


@every_family
def test_a_step_that_moves_nothing_leaves_the_means(
    family: str, inputs_of: Callable[[str], dict[str, Path]], tmp_path: Path
) -> None:
    made = learn(tmp_path, inputs_of(family), "vocadt", stage=recipe("vocadt", rate=1e-12))
    after, means = transferred(made, tmp_path / "model", "vocadt")[0].model, means_of(made, BOTH).state_dict()
    for name, tensor in after.state_dict().items():
        torch.testing.assert_close(tensor, means[name], rtol=0, atol=1e-7)


@every_family
def test_fewer_examples_have_fewer_old_tokens(
    family: str, learnt: Callable[[str, str], Learnt], tmp_path: Path
) -> None:
    whole = learnt(family, "vocadt")
    fewer = learn(tmp_path, whole.inputs, "vocadt", stage=recipe("vocadt", max_train_examples=10))
    assert (whole.summary["pairs"], fewer.summary["pairs"]) == (40, 10)
    assert all(0 < fewer.summary["old_tokens"][side] < whole.summary["old_tokens"][side] for side in BOTH)
    assert fewer.contents() != whole.contents()


@every_family
def test_a_layer_that_the_model_does_not_have_is_refused(
    family: str, inputs_of: Callable[[str], dict[str, Path]], tmp_path: Path
) -> None:
    stage = recipe("token-distillation", ("decoder",), layer=3)
    with pytest.raises(UserError, match="has no more than 2 layers"):
        stage.run(inputs_of(family), tmp_path, Watched(tmp_path / "work", None))


@pytest.mark.parametrize("method", DISTILLATIONS)
def test_embeddings_that_stay_shared_are_learnt_once(method: str, tmp_path: Path) -> None:
    shared = stage_inputs("mbart", tmp_path)
    shared["vocabulary/encoder"] = shared["vocabulary/decoder"]
    context, out = Watched(tmp_path / "work", None, "train_distillation"), tmp_path / "out"
    out.mkdir()
    assert set(recipe(method).run(shared, out, context)) == {"decoder"}
    assert [path.name for path in out.iterdir() if path.is_dir()] == ["decoder"]
    assert context.shown and all(now.startswith("decoder, distillation ") for now in context.shown)


def more_pairs(place: Path, columns: tuple[int, int] = (0, 1), **fields: Any) -> Path:
    """A corpus of pairs that are not in the inputs. columns: of TEXTS, for the source and the target."""
    place.mkdir()
    for at, field in zip(columns, ("source", "target"), strict=True):
        (place / f"train.{field}").write_text("".join(f"{pair[at]}\n" for pair in TEXTS[60:160]))
    sides = pair_fields(LANGUAGES, two=True)
    Corpus(place, fields=sides, generated=False, sizes={"train": 100}, counts={}, identity={}, **fields).save()
    return place


@every_family
def test_made_pairs_are_matched_for_what_the_pairs_lack(
    family: str, learnt: Callable[[str, str], Learnt], tmp_path: Path
) -> None:
    whole = learnt(family, "likelihood-matching")
    synthetic = {"synthetic": more_pairs(tmp_path / "made")}
    plain, more = whole.summary["decoder"], learn(tmp_path, whole.inputs | synthetic, "likelihood-matching").summary
    assert more["decoder"]["in_text"] > plain["in_text"] and more["decoder"]["sentences"] > plain["sentences"]
    assert more["decoder"]["divergence_before"] == plain["divergence_before"], "dev is the pairs' alone"


@every_family
def test_monolingual_text_is_distilled_in_the_side_that_reads_it(
    family: str, learnt: Callable[[str, str], Learnt], tmp_path: Path
) -> None:
    method = "token-distillation"
    whole = learnt(family, method)
    plain, lines = whole.summary, {"train": {"source": 100, "target": 100}}
    text = {"text": more_pairs(tmp_path / "text", aligned=False, field_sizes=lines)}
    copied = {"synthetic": more_pairs(tmp_path / "copied", columns=(1, 1))}
    of_encoder = learn(tmp_path / "one", whole.inputs | text, method).summary
    of_decoder = learn(tmp_path / "two", whole.inputs | copied, method).summary
    assert of_encoder["decoder"]["sentences"] == plain["decoder"]["sentences"]
    assert of_encoder["encoder"]["in_text"] > plain["encoder"]["in_text"]
    assert of_decoder["decoder"]["in_text"] > plain["decoder"]["in_text"]
    assert of_decoder["encoder"]["sentences"] == plain["encoder"]["sentences"]


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


@every_family
@pytest.mark.parametrize("start", ["avg", "patt"])
def test_matching_may_begin_with_another_initialiser_s_rows(
    start: StartName, family: str, inputs_of: Callable[[str], dict[str, Path]], tmp_path: Path
) -> None:
    inputs = inputs_of(family)
    generator = trained_generator(inputs, tmp_path / "generator") if start == "patt" else None
    directories = inputs | ({"generator": generator} if generator else {})
    barely = recipe("likelihood-matching", starts_from=start, rate=1e-9, max_steps=1)
    learned, bundle = learn(tmp_path, directories, "likelihood-matching", stage=barely).rows(), upstream(family)
    target: dict[SideName, Tokenizer] = {"decoder": new_vocabulary(family, "decoder")}
    model = transplant(bundle.model, bundle.tokenizers, target, Method(start, generator)).model
    torch.testing.assert_close(learned.rows, side_of(model, "decoder").input.weight[learned.tokens].detach())


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
    inputs = stage_inputs("marian", tmp_path / "given") | {"model": able(tmp_path / "able")}
    own, method = recipe("likelihood-matching", text="own-translations"), "likelihood-matching"
    with pytest.raises(KilledError):
        learn(tmp_path / "one", inputs, method, die_at=2, stage=own)
    files = sorted((tmp_path / "one" / "work" / "translations").rglob("*.json"))
    assert [path.name for path in files] == ["000000.json", *(f"{number:06d}.json" for number in range(3))]
    times = [path.stat().st_mtime_ns for path in files]
    one = learn(tmp_path / "one", inputs, method, stage=own)
    summary = one.summary["decoder"]
    assert times == [path.stat().st_mtime_ns for path in files]
    assert summary["translated"] == 48 and 0 <= summary["cut_translations"] <= 48
    seconds = sum(json.loads(path.read_text())["seconds"] for path in files)
    assert summary["translation_seconds"] == pytest.approx(seconds) and seconds > 0
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for path in inputs["corpus"].iterdir():
        text = path.read_text()
        (corpus / path.name).write_text(text if path.suffix != ".target" else "etwas anderes.\n" * text.count("\n"))
    two = learn(tmp_path / "two", inputs | {"corpus": corpus}, method, stage=own)
    assert one.contents() == two.contents()
