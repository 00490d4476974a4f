"""An experiment as steps: which stage makes what from what. Rows share every step that they have in common."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from subgraft import stages
from subgraft.config import Experiment, Row, SideName, Split, VocabularySettings
from subgraft.experiment.preflight import require_checkpoint, require_corpus
from subgraft.experiment.step import Step
from subgraft.files import file_digest
from subgraft.grafting.initialisers import SEEDED_METHODS, STATIC_METHODS, TRAINED_METHODS
from subgraft.stages.checkpoint import CheckpointRecipe
from subgraft.stages.corpus import CorpusRecipe
from subgraft.stages.evaluate import EvaluateRecipe
from subgraft.stages.finetune import FinetuneRecipe
from subgraft.stages.gap import GapRecipe
from subgraft.stages.generator import GeneratorRecipe
from subgraft.stages.pretrain import PretrainRecipe
from subgraft.stages.report import ReportRecipe
from subgraft.stages.static_embeddings import StaticEmbeddingsRecipe
from subgraft.stages.transfer import TransferRecipe
from subgraft.stages.vocabulary import VocabularyRecipe
from subgraft.text.sources import resolve


@dataclass(frozen=True)
class RowSteps:
    """The steps that one row takes under one seed; transfer and generator only where it has them."""

    row: Row
    seed: int
    generator: Step | None
    transfer: Step | None
    finetune: Step
    evaluate: Step

    @property
    def static(self) -> dict[str, Step]:
        """The static embeddings that the row rests on, by side."""
        inputs = self.transfer.inputs if self.transfer else {}
        return {key.removeprefix("static/"): step for key, step in inputs.items() if key.startswith("static/")}


class Pipeline:
    """Builds the steps of an experiment. base: the configuration's folder, where relative paths begin."""

    def __init__(self, experiment: Experiment, base: Path) -> None:
        self.experiment = experiment
        self._base = base.absolute()

    @cached_property
    def upstream_corpus(self) -> Step:
        upstream = self.experiment.upstream
        return self._corpus(upstream.corpus, ("train",) if upstream.checkpoint else ("train", "dev"))

    @cached_property
    def downstream_corpus(self) -> Step:
        return self._corpus(self.experiment.downstream.corpus, ("train", "dev", "test"))

    @cached_property
    def pretrained(self) -> Step:
        """The upstream model: learnt here, or a checkpoint."""
        experiment, upstream = self.experiment, self.experiment.upstream
        if upstream.checkpoint is not None:
            beside = self._base / upstream.checkpoint
            model = str(beside) if beside.is_dir() else upstream.checkpoint
            digest = _checkpoint_digest(require_checkpoint(model, experiment))
            recipe = CheckpointRecipe(digest=digest, model=model)
            return Step(stages.CHECKPOINT, f"checkpoint {upstream.checkpoint}", recipe)
        decoder = self._vocabulary(self.upstream_corpus, upstream.vocabulary, "target")
        encoder = self._vocabulary(self.upstream_corpus, upstream.vocabulary, "source")
        return Step(
            stages.PRETRAIN,
            f"pretrain on {upstream.corpus}",
            PretrainRecipe(
                objective=upstream.objective,
                languages=experiment.languages,
                model=experiment.model,
                noise=upstream.noise,
                training=experiment.pretrain,
                seed=upstream.seed,
            ),
            {
                "corpus": self.upstream_corpus,
                "encoder": decoder if experiment.model.family == "mbart" else encoder,
                "decoder": decoder,
            },
        )

    @cached_property
    def vocabularies(self) -> dict[SideName, Step]:
        """The task's own vocabularies; beside a checkpoint they take over the checkpoint's special tokens.

        The decoder's is always there: it is what the report is about.
        """
        found: dict[SideName, Step] = {}
        for side in ("decoder", *(side for side in self.experiment.sides if side == "encoder")):
            language: Literal["source", "target"] = "target" if side == "decoder" else "source"
            step = self._vocabulary(self.downstream_corpus, self.experiment.downstream.vocabulary, language)
            if self.experiment.upstream.checkpoint is not None:
                step = Step(step.stage, step.name, step.recipe, {**step.inputs, "model": self.pretrained})
            found[side] = step  # type: ignore[index]
        return found

    @cached_property
    def gap(self) -> Step:
        """How badly the upstream vocabulary fits the task's text."""
        inputs = {
            "model": self.pretrained,
            "vocabulary": self.vocabularies["decoder"],
            "corpus": self.downstream_corpus,
        }
        return Step(stages.GAP, "subword gap", GapRecipe(), inputs)

    @cached_property
    def rows(self) -> tuple[RowSteps, ...]:
        """Every row under every seed."""
        return tuple(self._row(row, seed) for row in self.experiment.rows for seed in self.experiment.seeds)

    @cached_property
    def report(self) -> Step:
        """What everything leads to."""
        inputs = {
            "upstream_corpus": self.upstream_corpus,
            "downstream_corpus": self.downstream_corpus,
            "model": self.pretrained,
            "vocabulary": self.vocabularies["decoder"],
            "gap": self.gap,
        }
        for steps in self.rows:
            key = f"{steps.row.name}/{steps.seed}"
            inputs |= {f"finetune/{key}": steps.finetune, f"evaluate/{key}": steps.evaluate}
            inputs |= {f"transfer/{key}": steps.transfer} if steps.transfer else {}
            inputs |= {f"generator/{key}": steps.generator} if steps.generator else {}
            inputs |= {f"static/{side}/{key}": step for side, step in steps.static.items()}
        return Step(stages.REPORT, "report", ReportRecipe.of(self.experiment), inputs)

    def _corpus(self, name: str, needed: Sequence[Split]) -> Step:
        experiment = self.experiment
        source = experiment.corpora[name]
        resolved = resolve(source, experiment.languages, self._base)
        require_corpus(resolved, needed, name)
        recipe = CorpusRecipe(
            identity=dict(resolved.identity()),
            languages=experiment.languages,
            cleaning=experiment.cleaning,
            source=source,
            base=self._base,
        )
        return Step(stages.CORPUS, f"corpus {name}", recipe)

    def _vocabulary(self, corpus: Step, settings: VocabularySettings, side: Literal["source", "target"]) -> Step:
        languages = self.experiment.languages
        coded = self.experiment.model.family == "mbart" and self.experiment.upstream.checkpoint is None
        recipe = VocabularyRecipe(
            side="both" if coded and corpus is self.upstream_corpus else side,
            settings=settings,
            languages=tuple(_code(code) for code in (languages.source, languages.target)) if coded else (),
        )
        language = languages.source if side == "source" else languages.target
        return Step(stages.VOCABULARY, f"vocabulary {language} of {corpus.name}", recipe, {"corpus": corpus})

    def _generator(self, row: Row) -> Step:
        experiment = self.experiment
        recipe = GeneratorRecipe(
            objective=experiment.upstream.objective,
            languages=experiment.languages,
            noise=experiment.upstream.noise,
            sides=experiment.sides,
            kind=row.initialiser,  # type: ignore[arg-type]
            kd_weight=row.kd_weight or 0.0,
            generator=experiment.generator,
            training=experiment.generator_training,
            seed=experiment.upstream.seed,
        )
        inputs = {"model": self.pretrained, "corpus": self.upstream_corpus}
        return Step(stages.GENERATOR, f"generator {row.name}", recipe, inputs)

    def _static(self, method: str, side: SideName) -> Step:
        """Static embeddings of a side's new vocabulary; rows that need the same ones share them."""
        experiment = self.experiment
        settings = experiment.static_embeddings
        dimensions = settings.dimensions or experiment.model.d_model
        recipe = StaticEmbeddingsRecipe(
            side="target" if side == "decoder" else "source",
            algorithm=STATIC_METHODS[method],
            settings=settings.model_copy(update={"dimensions": dimensions}),
        )
        inputs = {"corpus": self.downstream_corpus, "vocabulary": self.vocabularies[side]}
        return Step(stages.STATIC, f"{recipe.algorithm} embeddings of the {side}", recipe, inputs)

    def _row(self, row: Row, seed: int) -> RowSteps:
        experiment = self.experiment
        labels = {"row": row.name, "seed": str(seed)}
        generator = self._generator(row) if row.initialiser in TRAINED_METHODS else None
        transfer = self._transfer(row, seed, generator) if row.initialiser else None
        finetune = Step(
            stages.FINETUNE,
            f"finetune {row.name} seed {seed}",
            FinetuneRecipe(
                languages=experiment.languages,
                training=experiment.finetune,
                seed=seed,
            ),
            {"model": transfer or self.pretrained, "corpus": self.downstream_corpus},
            labels,
        )
        evaluate = Step(
            stages.EVALUATE,
            f"evaluate {row.name} seed {seed}",
            EvaluateRecipe(languages=experiment.languages, evaluation=experiment.evaluation),
            {"model": finetune, "corpus": self.downstream_corpus},
            labels,
        )
        return RowSteps(row, seed, generator, transfer, finetune, evaluate)

    def _transfer(self, row: Row, seed: int, generator: Step | None) -> Step:
        method = row.initialiser or ""
        seeded = method in SEEDED_METHODS
        recipe = TransferRecipe(
            method=method,
            sides=self.experiment.sides,
            max_similar=self.experiment.generator.max_similar,
            # Initialisers without randomness are given one seed, so that all seeds share the transfer.
            seed=seed if seeded else 0,
        )
        inputs = {"model": self.pretrained}
        inputs |= {f"vocabulary/{side}": self.vocabularies[side] for side in self.experiment.sides}
        inputs |= {"generator": generator} if generator else {}
        if method in STATIC_METHODS:
            inputs |= {f"static/{side}": self._static(method, side) for side in self.experiment.sides}
        name = f"transfer {row.name} seed {seed}" if seeded else f"transfer {row.name}"
        return Step(stages.TRANSFER, name, recipe, inputs, {"row": row.name, **({"seed": str(seed)} if seeded else {})})


def _code(language: str) -> str:
    """A language's special token, as mBART writes it: en_XX."""
    return language if "_" in language else f"{language}_XX"


def _checkpoint_digest(directory: Path) -> str:
    """SHA-256 over the names and contents of a checkpoint's files."""
    digest = hashlib.sha256()
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(directory).as_posix()} {file_digest(path)}\n".encode())
    return digest.hexdigest()
