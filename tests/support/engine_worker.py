"""One worker of a small training: `engine_worker.py TASK ENGINE OUT STOP [background]`.

RANK and WORLD_SIZE are as torchrun sets them. Checkpoints are written after every step, in the background if so said.

Trains STEPS steps, or dies before step STOP + 1, and a rerun in OUT carries on. Writes rank 0's losses per step and
the final weights to OUT. TASK: pretraining, or pretraining-rehearsed, after a dry batch, or pretraining-frozen,
without the decoder's tables, or pretraining-selected, whose weights after SELECTED steps are the best, or
pretraining-adamax, by another optimizer, with layers at rates of their own; or
generator (with both of its losses), generator-recomputed, with activation checkpointing, or generator-rare, whose
micro-batches of one or two sentences seldom have a simulated token (how many each has goes to OUT/new-RANK.json); or
network, a generator with capacity, on pseudo-domains; or joint, with copied text and pairs in every batch; or
memory, which trains nothing and writes how many bytes each worker's states take to OUT/bytes-RANK.json; or heads, a
mixture of two objectives that each have parameters of their own; or sampled, a masked model whose targets compete with
their nearest tokens alone (the candidates of each step go to OUT/candidates-RANK-STOP.json); or sourced-VARIANT, a
language model with features for its source; or entities, a model that reads entities, with both of its losses; or
entity-pairs, the same with next sentences, in turn with hidden tokens alone; or
ernie, hidden words and two objectives with heads of their own; or bart, noised text and masked spans; or
multitask-masked, hidden tokens under four attentions; or permuted, an XLNet with a memory of documents; or recurrent,
an ERNIE 3 with two; or translation-KIND, of `translation_tasks.py`. ENGINE: plain, or zero0 to zero3, with
-optimizer or -parameters for what is offloaded.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from bart_tasks import bart_mixture, multitask_masked
from documented import next_sentence_mixture
from entities import entity_mixture, entity_sentences, knowledgeable
from ernie_tasks import ernie_mixture
from permuted import documents, objective
from recurrent import Remembered, recurrent_mixture, some_documents
from several_tasks import Several
from several_tasks import settings as finetuning
from subgraft.config.corpora import Languages
from subgraft.config.initialisers import ResegmentationSettings
from subgraft.config.models import GPT2Settings
from subgraft.config.training import FinetuneSettings, NearestTargets, TrainingSettings
from subgraft.contrib.conditioning.conditional_model import conditioned
from subgraft.contrib.ernie_thu.masked_entities import EntityLoss
from subgraft.embeddings.generators.domain_simulation import PseudoDomains
from subgraft.embeddings.generators.generator import Generator
from subgraft.embeddings.generators.generator_loss import GeneratorLoss
from subgraft.embeddings.generators.network import Network, NetworkShape
from subgraft.embeddings.generators.simulation import GeneratorBatch, Simulator
from subgraft.embeddings.methods.network import NetworkSettings
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.conditioning.settings import ConditioningSettings
from subgraft.modeling.conditioning.sources import FeatureSource
from subgraft.modeling.families import family_named
from subgraft.modeling.sides import set_hidden_dropout, side, tables_of
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.engine import Batch, Engine, PlainEngine, recompute_activations
from subgraft.training.loop import Hooks, Trainer
from subgraft.training.objectives.compute.causal import set_bos_token
from subgraft.training.objectives.compute.conditioned import SourcedLines, SourcedLoss
from subgraft.training.objectives.compute.distributed import Workers
from subgraft.training.objectives.compute.interface import ObjectiveLoss
from subgraft.training.objectives.compute.masked import MaskedSentences
from subgraft.training.objectives.compute.mixture import MixedBatch, MixedLoss, Mixture
from subgraft.training.objectives.compute.seq2seq import Seq2SeqData, Seq2SeqLoss, Seq2SeqView
from subgraft.training.objectives.compute.single_stack import StackLoss
from subgraft.training.objectives.compute.target_sampling import NearestSampling, SampledBatch, SampledLoss
from subgraft.training.objectives.compute.translation import Translation
from subgraft.training.objectives.masked import MaskedSettings
from subgraft.training.parameter_groups import ParameterRates
from subgraft.training.progress import Selection
from subgraft.training.schedule import Data
from subgraft.training.streams import StreamedData
from subgraft.training.tensor_shards import GatheredTensors
from subgraft.training.understanding.multitask import TasksAtOnce
from toys import (
    SHAPE,
    build_bert,
    build_marian,
    cased_tokenizer,
    english,
    english_tokenizer,
    german,
    german_tokenizer,
    sequence_format,
    xlnet,
)
from translation_tasks import translation_task

STEPS, SELECTED = 6, 3
RARE = "generator-rare"


def main(task: str, kind: str, out: Path, stop: int, background: bool) -> None:
    torch.set_num_threads(1)
    settings = FinetuneSettings(
        max_steps=STEPS, batch_size=160, micro_batch_size=60, learning_rate=0.01, warmup_steps=4, precision="fp32"
    )
    if task == RARE:
        settings = settings.model_copy(update={"micro_batch_size": 18})
    if task == "heads":
        settings = settings.model_copy(update={"batch_size": 24, "micro_batch_size": 8, "weight_decay": 0.1})
    if task == "sampled":
        settings = settings.model_copy(update={"micro_batch_size": None})
    module, weights, data = _made(task)
    callback: Any = _Written(module) if isinstance(module, SampledLoss) else None
    if isinstance(data, StreamedData | Remembered):
        callback = data.memory
    tables: Sequence[Tensor] = ()
    if task.startswith("tasks"):
        settings = settings.model_copy(update={"batch_size": 200, "micro_batch_size": 120})
    if task == "tasks-adamw":
        settings = settings.model_copy(update={"weight_decay": 0.1})
    if task.endswith("adamax"):
        settings = settings.model_copy(update={"optimizer": "adamax", "layer_decay": 0.5})
    if task.endswith("frozen"):
        settings = settings.model_copy(update={"embedding_learning_rate": 0.0})
        tables = list(tables_of(module.model, ["decoder"]).values())  # type: ignore[arg-type]
    losses: dict[int, float] = {}

    def metrics(step: int, values: Mapping[str, float]) -> None:
        losses[step] = sum(values.get(f"train_{name}", 0.0) for name in weights)

    engine = _engine(kind, module, settings, tables)
    if task == "memory":
        _measure(out, engine, data.batch(np.arange(4), 0))
        return
    checkpoints = Checkpoints(out / "checkpoints")
    hooks = Hooks(metrics=metrics)
    if task.endswith("selected"):
        settings = settings.model_copy(update={"evaluate_at": (SELECTED, SELECTED + 1)})
        hooks = Hooks(lambda: {"score": -abs(trainer._state.step - SELECTED)}, Selection("score"), metrics=metrics)
    trainer = Trainer(
        module,
        weights,
        data,
        settings,
        engine,
        checkpoints,
        seed=3,
        checkpoint_seconds=1e-9,
        background=background,
        hooks=hooks,
        callback=callback,
    )
    if task.endswith("rehearsed"):
        trainer.probe_memory(trainer.largest_batch())
    take_step = engine.step
    moves = list[tuple[str, list[str]]]()

    def step_or_die(learning_rate: float) -> None:
        if trainer._state.step == stop:
            if losses:  # rank 0's
                (out / f"losses-{stop}.json").write_text(json.dumps(losses))
            os._exit(0)
        several = data if isinstance(data, _Watched) else None
        before = several.copies() if several else {}
        take_step(learning_rate)
        if several:
            moves.append((several.latest, several.moved_since(before)))

    engine.step = step_or_die  # type: ignore[method-assign]
    trainer.run()
    if isinstance(callback, _Written):
        (out / f"candidates-{engine.rank}-{stop}.json").write_text(json.dumps(callback.candidates))
    if moves:
        (out / f"moved-{engine.rank}.json").write_text(json.dumps(moves))
    if isinstance(data, _Counted):
        (out / f"new-{engine.rank}.json").write_text(json.dumps(data.new))
    held = _held(module)
    with engine.gathered_parameters():
        remaining = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
    tensors = {name: tensor.contiguous().clone() for name, tensor in GatheredTensors(engine.state(), engine).items()}
    if engine.rank == 0:
        (out / f"losses-{stop}.json").write_text(json.dumps(losses))
        (out / "held.json").write_text(json.dumps(held))
        save_file(tensors, out / "final.safetensors")
        save_file(remaining, out / "module.safetensors")
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def _made(task: str) -> tuple[nn.Module, Mapping[str, float], Data]:
    if task.startswith("generator"):
        return _generator(task)
    if task.startswith("sourced-"):
        return _sourced(task.removeprefix("sourced-"))
    if task.startswith("tasks"):
        return _tasks()
    if task.startswith("translation-"):
        loss, data = translation_task(task.removeprefix("translation-"), Path(tempfile.mkdtemp()))
        return loss, {"loss": 1.0}, data
    others = {
        "heads": _heads,
        "joint": _joint,
        "network": _network,
        "sampled": _sampled,
        "entities": _entities,
        "entity-pairs": _entity_pairs,
        "next-sentence": _next_sentence,
        "ernie": _ernie,
        "bart": _bart,
        "multitask-masked": _multitask_masked,
        "permuted": _permuted,
        "recurrent": _recurrent,
    }
    return others.get(task, _pretraining)()


def _measure(out: Path, engine: Engine, batch: Batch) -> None:
    """The bytes of everything but integers that lives once gradients are there, activations no longer."""
    engine.probe_memory(batch, ["loss"], times=1)
    engine.accumulate(batch, {"loss": 1.0}, last=False)
    gc.collect()
    living = [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor) and each.is_floating_point()]
    living += [each.grad for each in living if each.is_leaf and each.grad is not None]
    storages = {storage.data_ptr(): storage.nbytes() for storage in (each.untyped_storage() for each in living)}
    (out / f"bytes-{engine.rank}.json").write_text(json.dumps(sum(storages.values())))


def _examples() -> tuple[PreTrainedModel, Translation, tuple[int, int]]:
    source, target = english_tokenizer(), german_tokenizer()
    form = sequence_format({"model_type": "marian"}, source, target, Languages(source="en", target="de"))
    examples = Translation(list(zip(english(120), german(120), strict=True)), source, target, form, max_length=40)
    shape = SHAPE | {"dropout": 0.0}
    return build_marian(source, target, seed=1, **shape), examples, (source.special["pad"], target.special["pad"])


def _pretraining() -> tuple[nn.Module, Mapping[str, float], Data]:
    model, examples, padding = _examples()
    return Seq2SeqLoss(model, 0.1), {"loss": 1.0}, Seq2SeqData(examples, *padding)


def _network() -> tuple[nn.Module, Mapping[str, float], Data]:
    model, examples, padding = _examples()
    view = Seq2SeqView(examples, "decoder", padding)
    settings = NetworkSettings(width=8, layers=1, domains=2, sentences=60, vocabulary_size=(1.0, 2.0), negatives=20)
    network, tokenizer = Network(NetworkShape.of(side(model, "decoder"), 8, 1)), german_tokenizer()
    network.begin(side(model, "decoder"), torch.from_numpy(tokenizer.ordinary_ids), 1)
    loss = GeneratorLoss(model, network, view, 0.0, 0.0, "input")
    return loss, loss.weights, PseudoDomains.sample(view, tokenizer, settings, 1, 40)


class _Written(NearestSampling):
    """Keeps the candidates of each step."""

    def __init__(self, module: SampledLoss) -> None:
        super().__init__(NearestTargets(neighbours=2, rebuild_every=4), module.model, 3)
        self.candidates: dict[int, list[int]] = {}

    def prepare(self, batches: Sequence[Any], step: int, workers: Workers) -> list[SampledBatch]:
        (made,) = super().prepare(batches, step, workers)
        self.candidates[step] = made.candidates.tolist()
        return [made]


def _sampled() -> tuple[nn.Module, Mapping[str, float], Data]:
    tokenizer = cased_tokenizer()
    sentences = MaskedSentences(english(120) + german(120), tokenizer, MaskedSettings(), max_length=40, seed=3)
    return SampledLoss(StackLoss(build_bert(tokenizer, seed=1, **SHAPE | {"dropout": 0.0}))), {"loss": 1.0}, sentences


def _entities() -> tuple[nn.Module, Mapping[str, float], Data]:
    loss = EntityLoss(knowledgeable(), 0.0, 1.0)
    return loss, loss.weights, entity_sentences()


def _entity_pairs() -> tuple[nn.Module, Mapping[str, float], Data]:
    """Batches of segment pairs with all three losses, and of hidden tokens alone, which use no other parameter."""
    with tempfile.TemporaryDirectory() as place:
        loss, data = entity_mixture(Path(place))
    return loss, loss.weights, data


def _next_sentence() -> tuple[nn.Module, Mapping[str, float], Data]:
    """Batches of both heads, and of tokens alone."""
    with tempfile.TemporaryDirectory() as place:
        loss, data = next_sentence_mixture(Path(place))
    return loss, loss.weights, data


def _ernie() -> tuple[nn.Module, Mapping[str, float], Data]:
    with tempfile.TemporaryDirectory() as place:
        loss, data = ernie_mixture(Path(place))
    return loss, loss.weights, data


def _bart() -> tuple[nn.Module, Mapping[str, float], Data]:
    loss, data = bart_mixture()
    return loss, loss.weights, data


def _multitask_masked() -> tuple[nn.Module, Mapping[str, float], Data]:
    loss, data = multitask_masked()
    return loss, {"loss": 1.0}, data


def _permuted() -> tuple[nn.Module, Mapping[str, float], Data]:
    corpus = documents(Path(tempfile.mkdtemp()), 10, 12)
    settings = {"input": "segment-pair", "memory_tokens": 12, "next_sentence": True}
    made = objective(corpus, settings, xlnet(dropout=0.0))
    loss = made.loss(0.1)
    return loss, loss.weights, made


def _recurrent() -> tuple[nn.Module, Mapping[str, float], Data]:
    loss, data = recurrent_mixture(some_documents(Path(tempfile.mkdtemp())))
    return loss, loss.weights, data


def _sourced(variant: str) -> tuple[nn.Module, Mapping[str, float], Data]:
    tokenizer, lines = english_tokenizer(), english(120)
    shape = GPT2Settings(d_model=SHAPE["d_model"], layers=2, attention_heads=4, ffn_dim=32, dropout=0.0)
    settings = ConditioningSettings.model_validate(
        {
            "variant": variant,
            "source": {"kind": "features", "features": 5},
            "decoder": {"d_model": 8, "layers": 1, "attention_heads": 2, "dropout": 0.0},
        }
    )
    model = conditioned(family_named("gpt2").build(shape, tokenizer, tokenizer, 1), settings, seed=1)
    separator, chooser = tokenizer.special["eos"], np.random.default_rng(1)
    set_bos_token(model, separator)
    features = FeatureSource(5).encode([chooser.standard_normal((1 + place % 4, 5)) for place in range(len(lines))])
    data = SourcedLines(lines, features, Bundle(model, tokenizer, tokenizer), separator, 40)
    return SourcedLoss(model), {"loss": 1.0}, data


class _Joint:
    """Pairs, and additional pairs."""

    def __init__(self, first: Seq2SeqData, second: Seq2SeqData) -> None:
        self.first, self.second, self.second_share = first, second, 0.4
        self.lengths = np.concatenate([first.lengths, second.lengths])

    def batch(self, indices: np.ndarray, epoch: int) -> Batch:
        before = len(self.first.lengths)
        first = indices[0] < before
        return self.first.batch(indices, epoch) if first else self.second.batch(indices - before, epoch)


def _joint() -> tuple[nn.Module, Mapping[str, float], Data]:
    model, examples, padding = _examples()
    source, target = english_tokenizer(), german_tokenizer()
    form = sequence_format({"model_type": "marian"}, source, target, Languages(source="en", target="de"))
    text = Translation([(line, line) for line in german(30, 5)], source, target, form, max_length=40)
    return Seq2SeqLoss(model, 0.1), {"loss": 1.0}, _Joint(Seq2SeqData(examples, *padding), Seq2SeqData(text, *padding))


class _Counted(Simulator):
    """Keeps how many new tokens each batch has."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.new: list[int] = []

    def batch(self, indices: np.ndarray, epoch: int) -> GeneratorBatch:
        made = super().batch(indices, epoch)
        self.new.append(len(made.new))
        return made


def _generator(task: str) -> tuple[nn.Module, Mapping[str, float], Data]:
    model, examples, padding = _examples()
    if task.endswith("recomputed"):
        recompute_activations(model)
    merge, split = (0.03, 0.02) if task == RARE else (0.4, 0.3)
    rates = ResegmentationSettings(merge_rate=merge, split_rate=split)
    view = Seq2SeqView(examples, "decoder", padding)
    data = _Counted(view, german_tokenizer(), rates, 10, 1)
    loss = GeneratorLoss(model, Generator("patt", SHAPE["d_model"]), view, 0.5, 0.0, "input")
    return loss, loss.weights, data


@dataclass(frozen=True)
class _Points:
    """Points [n, 4]."""

    points: Tensor

    @property
    def counts(self) -> dict[str, int]:
        return {"loss": len(self.points)}

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.points), 4

    def to(self, device: torch.device | str) -> _Points:
        return _Points(self.points.to(device))


class _Cloud:
    """What one of two objectives is trained on."""

    def __init__(self, seed: int) -> None:
        self._points = torch.randn(40, 4, generator=torch.Generator().manual_seed(seed))
        self.lengths = np.full(40, 4)

    def batch(self, indices: np.ndarray, epoch: int) -> _Points:
        del epoch
        return _Points(self._points[indices])


class _Head(ObjectiveLoss):
    """A linear layer of its own on one that all share."""

    def __init__(self, body: nn.Linear) -> None:
        super().__init__()
        self.body, self.head = body, nn.Linear(3, 1)

    def forward(self, batch: _Points) -> dict[str, Tensor]:
        return {"loss": ((self.head(self.body(batch.points).tanh()) - 1) ** 2).sum()}


def _heads() -> tuple[nn.Module, Mapping[str, float], Data]:
    torch.manual_seed(1)
    body = nn.Linear(4, 3)
    loss = MixedLoss(body, {"one": _Head(body), "two": _Head(body)})
    return loss, loss.weights, Mixture({"one": _Cloud(1), "two": _Cloud(2)}, {"one": 0.6, "two": 0.4})


class _Watched(TasksAtOnce):
    """Knows the task of the latest batch, and which heads a step has moved."""

    def __init__(self, several: Several) -> None:
        super().__init__(several.parts)
        self._several, self.latest = several, ""

    def batch(self, indices: np.ndarray, epoch: int) -> MixedBatch:
        made = super().batch(indices, epoch)
        self.latest = made.kind
        return made

    def copies(self) -> dict[str, list[Tensor]]:
        return {name: [p.detach().clone() for p in head.values()] for name, head in self._several.heads.items()}

    def moved_since(self, before: Mapping[str, Sequence[Tensor]]) -> list[str]:
        after = self.copies()
        return [
            name
            for name in after
            if not all(torch.equal(*each) for each in zip(after[name], before[name], strict=True))
        ]


def _tasks() -> tuple[nn.Module, Mapping[str, float], Data]:
    several = Several(Path(tempfile.mkdtemp()), finetuning())
    set_hidden_dropout(several.loss, 0.0)
    return several.loss, several.loss.weights, _Watched(several)


def _engine(kind: str, module: nn.Module, settings: TrainingSettings, tables: Sequence[Tensor]) -> Engine:
    rates = ParameterRates.of(settings, tables)
    device = torch.device("cpu")
    if kind == "plain":
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            dist.init_process_group("gloo")
        return PlainEngine(module, settings, device, rates)
    from subgraft.training import deepspeed_engine

    configure = deepspeed_engine._configuration

    def shard_everything(*arguments: Any) -> dict[str, Any]:
        """DeepSpeed leaves tables of less than 100,000 numbers whole, and bundles gradients: all that a toy has."""
        configuration = configure(*arguments)
        configuration["zero_optimization"] |= {"stage3_param_persistence_threshold": 0, "reduce_bucket_size": 1000}
        return configuration

    deepspeed_engine._configuration = shard_everything  # type: ignore[assignment]
    stage, _, offload = kind.removeprefix("zero").partition("-")
    return deepspeed_engine.DeepSpeedEngine(
        module,
        settings,
        device,
        int(stage),  # type: ignore[arg-type]
        rates,
        offload or "none",  # type: ignore[arg-type]
    )


def _held(module: nn.Module) -> float:
    """The share of the module's parameters that lie on this worker between two steps."""
    held = 0
    for p in module.parameters():
        held += p.numel() or p.ds_tensor.numel()  # type: ignore[attr-defined]
    return held / sum(getattr(p, "ds_numel", p.numel()) for p in module.parameters())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), sys.argv[5:] == ["background"])
