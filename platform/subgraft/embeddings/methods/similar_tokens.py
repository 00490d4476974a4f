"""AVG, ATT and PATT (Liu et al. 2021): rows mixed from a token's similar tokens; docs/design.md has the method."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from subgraft.base.errors import UserError
from subgraft.config.initialisers import Negatives, ResegmentationSettings
from subgraft.config.settings_base import Count, Settings
from subgraft.config.training import TrainingSettings
from subgraft.embeddings.methods.method import AnyGeneratorStage, MethodSpec, TrainingGroup
from subgraft.training.stage import ExtraParameters, Inputs, KnownSizes, Summary

if TYPE_CHECKING:
    from subgraft.embeddings.generators.generator import Generator, GeneratorKind
    from subgraft.embeddings.initialisers.new_rows import InitialiserInputs, NewRows
    from subgraft.training.context import Context

# Rows of a generator's weights: one for all similar tokens, or one for each of the six relations.
_ROWS = {"att": 1, "patt": 6}


class GeneratorSettings(Settings):
    """Settings of generators that all systems share; the kind and kd_weight are the system's.

    max_similar: the maximum number of similar tokens that a new embedding is mixed from.
    literal_equation: whether to divide by the number of similar tokens once more, as equations 2 and 3 are printed.
    distillation_position: where a decoder's states are compared: where a token is read, or predicted.
    resegmentation: how new tokens are simulated.
    negatives: the simulated tokens in the decoder's softmax: of the sentence, or of all sentences computed together.
    initial_weights: zero, by which attention starts as avg; or normal, drawn from N(0, 1).
    """

    max_similar: Count = 10
    literal_equation: bool = False
    distillation_position: Literal["input", "prediction"] = "input"
    resegmentation: ResegmentationSettings = ResegmentationSettings()
    negatives: Negatives = "sentence"
    initial_weights: Literal["zero", "normal"] = "zero"


class GeneratorGroups(Settings):
    """
    generator: settings of generators, shared by all systems.
    generator_training: the training of a generator.
    """

    generator: GeneratorSettings = GeneratorSettings()
    generator_training: TrainingSettings


class GeneratorStage(AnyGeneratorStage):
    """The training of an ATT or PATT generator."""

    stage_name: ClassVar[str] = "generator"
    revision: ClassVar[int] = 4

    kind: Literal["att", "patt"]
    generator: GeneratorSettings

    @property
    def reads_new_vocabulary(self) -> bool:
        return self.generator.resegmentation.match is not None

    def extra_parameters(self, sizes: KnownSizes) -> ExtraParameters:
        weights = _ROWS[self.kind] * sizes.width
        return ExtraParameters(held=weights, trained=weights)

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.embeddings.generators.training import train_generator

        return train_generator(self, inputs, out, context)


def mix_similar(request: InitialiserInputs, kind: GeneratorKind) -> NewRows:
    """The generator's mixture of each token's similar tokens.

    Raises UserError if the generator is missing, of another kind, or was trained for another model.
    """
    import torch

    from subgraft.embeddings.generators.generator import RaggedSimilar
    from subgraft.embeddings.initialisers.new_rows import MixingMatrix, mix_others, mix_rows
    from subgraft.subwords.similar_tokens.finder import SimilarTokenFinder

    generator, max_similar = _generator(request, kind)
    matches = SimilarTokenFinder(request.source, max_similar).find(request.entries)
    similar = RaggedSimilar.from_numpy(matches, request.source.ordinary_ids)
    with torch.no_grad():
        weights = generator.mixing_weights(request.side.input.weight.float(), similar).float()
    matrix = MixingMatrix(similar.offsets, similar.token_ids, weights, similar.ordinary)
    return mix_rows(request.side, matrix.followed_by(mix_others(request)), matches.fallback_counts())


def _generator(request: InitialiserInputs, kind: GeneratorKind) -> tuple[Generator, int]:
    from subgraft.embeddings.generators.generator import Generator, check_origin, load_generator, require_kind

    table = request.side.input.weight
    if kind == "avg":
        if request.generator is not None:
            raise UserError("avg has nothing to train, so it takes no generator", where=str(request.generator))
        return Generator("avg", table.shape[1]), request.max_similar
    if request.generator is None:
        raise UserError(f"{kind} needs a trained generator", hint="Give its directory, or use avg.")
    require_kind(request.generator, request.side.name, kind)
    generator, origin = load_generator(request.generator, request.side.name)
    if not request.origin_checked:
        check_origin(origin, table, request.source.fingerprint, str(request.generator))
    return generator, origin.max_similar


_TRAINING = TrainingGroup(
    "generator_training",
    small={"max_steps": 300, "learning_rate": 0.01},
    gpu={"max_steps": 1500, "learning_rate": 0.01},
    paper={"max_steps": 2000, "learning_rate": 5e-4},
)
AVG = MethodSpec(
    name="avg",
    start="the mean of its similar tokens: those pieces, and longer old tokens that contain it",
    source="Liu et al. 2021, eq. 1",
    rows=partial(mix_similar, kind="avg"),
    mixes=True,
    generator=True,
)
ATT = MethodSpec(
    name="att",
    start="the same tokens, weighted by trained attention",
    source="Liu et al. 2021, eq. 2",
    rows=partial(mix_similar, kind="att"),
    mixes=True,
    generator=True,
    trains=GeneratorStage,
    training=_TRAINING,
)
PATT = MethodSpec(
    name="patt",
    start="attention that knows how each relates to it (prefix, infix, suffix; shorter or longer)",
    source="Liu et al. 2021, eq. 3",
    rows=partial(mix_similar, kind="patt"),
    mixes=True,
    generator=True,
    trains=GeneratorStage,
    training=_TRAINING,
)
