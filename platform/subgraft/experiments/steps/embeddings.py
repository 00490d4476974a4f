"""Steps that train generators and new embeddings for the systems of an experiment."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from subgraft.base.errors import UserError
from subgraft.base.files import file_digest
from subgraft.config.experiment.systems import System
from subgraft.config.settings_base import SideName, StaticAlgorithm
from subgraft.embeddings.methods.method import MethodSpec
from subgraft.embeddings.methods.network import NETWORK_FILES, ImportedNetworkStage
from subgraft.embeddings.methods.registry import method_spec, package_of
from subgraft.experiments.steps.additional_text import AdditionalTextSteps
from subgraft.experiments.steps.inputs import InputSteps, from_checkpoint
from subgraft.experiments.steps.vocabularies import VocabularySteps
from subgraft.modeling.hub import require_model
from subgraft.orchestration.store.step import Step
from subgraft.pipeline.stages.models import TransferStage
from subgraft.pipeline.stages.vocabularies import StaticEmbeddingsStage


class EmbeddingSteps:
    """Embeddings of new tokens: trained generators, static embeddings, learnt rows, and the transfer itself."""

    def __init__(self, inputs: InputSteps, vocabularies: VocabularySteps, text: AdditionalTextSteps) -> None:
        self.experiment = inputs.experiment
        self._inputs = inputs
        self._vocabularies = vocabularies
        self._text = text

    def transfer(self, system: System, seed: int, model: Step, generator: Step | None) -> Step[TransferStage]:
        method = system.initialiser or "mean"  # unused with a trimmed vocabulary, which has no new rows
        facts = method_spec(system.initialiser)
        seeded = facts.seeded
        stage = TransferStage(
            method=method,
            sides=self.experiment.sides,
            max_similar=self.experiment.generator.max_similar,
            # Deterministic initialisers always get seed 0, so that all seeds share the transfer.
            seed=seed if seeded else 0,
            package=package_of(method),
            donor=system.donor.mapping_settings if facts.donor and system.donor else None,
            copy_shared_tokens=system.copy_shared_tokens,
            keep_matrices=system.tie_to_sources,
        )
        inputs = {"model": model}
        vocabularies = self._vocabularies.of_system(system)
        inputs |= self._vocabulary_inputs(vocabularies)
        inputs |= {"generator": generator} if generator and facts.trained else {}
        if facts.static:
            sides = self.experiment.sides
            inputs |= {f"static/{side}": self._static(facts.static, side, vocabularies[side]) for side in sides}
        if facts.donor and system.donor:
            inputs |= {"donor": self._donor(system.name, system.donor.model)}
        if facts.learning:
            inputs |= {"distilled": self._learned(facts, system, model, vocabularies, generator)}
        name = f"transfer {system.name} seed {seed}" if seeded else f"transfer {system.name}"
        labels = {"system": system.name, **({"seed": str(seed)} if seeded else {})}
        return Step(stage, name, inputs, labels)

    def generator(self, system: System, model: Step) -> Step | None:
        """The generator that a system needs for its model. Raises UserError if a configured one does not exist."""
        if system.generator is None:
            return None
        if system.trains_network and self.experiment.network.trained is not None:
            return self._imported(self.experiment.network.trained)
        stage = self.experiment.generator_stage(system)
        inputs = {"model": model, "corpus": self._inputs.generator_corpus}
        if stage.reads_new_vocabulary:
            inputs |= self._vocabulary_inputs(self._vocabularies.of_system(system))
        # A network is the same for every task.
        return Step(stage, "network" if system.trains_network else f"generator {system.name}", inputs)

    def _imported(self, path: str) -> Step:
        """A previously trained network, imported into the store."""
        directory = self._inputs.path(path)
        digest = hashlib.sha256()
        for name in NETWORK_FILES:
            if not (directory / name).is_file():
                hint = "`subgraft generator train` makes such a directory."
                raise UserError(f"no trained network here: it lacks {name}", where=str(directory), hint=hint)
            digest.update(f"{name} {file_digest(directory / name)}\n".encode())
        stage = ImportedNetworkStage(
            digest=digest.hexdigest(),
            sides=self.experiment.sides,
            directory=str(directory),
        )
        return Step(stage, "imported network")

    def _static(self, algorithm: StaticAlgorithm, side: SideName, vocabulary: Step) -> Step:
        """Static embeddings of a side's new vocabulary; systems that need the same ones share them."""
        experiment = self.experiment
        settings = experiment.static_embeddings
        dimensions = settings.dimensions or experiment.model.width_of_rows
        stage = StaticEmbeddingsStage(
            side=self._inputs.text_of(side),
            algorithm=algorithm,
            settings=settings.model_copy(update={"dimensions": dimensions}),
        )
        inputs = {
            **self._inputs.training_corpora,
            "vocabulary": vocabulary,
            **self._inputs.text_on(stage.side),
        }
        return Step(stage, f"{stage.algorithm} embeddings of the {side}", inputs)

    def _donor(self, system: str, name: str) -> Step:
        """The donor's model, imported into the store. Raises UserError for one that cannot be read."""
        model = self._inputs.locate_model(name)
        try:
            return from_checkpoint("donor", model, require_model(model))
        except UserError as error:
            raise UserError(f"{name}: {error.what}", where=f"system {system}, donor.model", hint=error.hint) from None

    def _learned(
        self,
        method: MethodSpec,
        system: System,
        model: Step,
        vocabularies: Mapping[SideName, Step],
        generator: Step | None,
    ) -> Step:
        """The step that learns rows of the new tokens of all sides; all seeds share it."""
        stage = self.experiment.learning_stage(method, system.starts_from)
        inputs = {"model": model, "corpus": self._inputs.downstream_corpus, **self._vocabulary_inputs(vocabularies)}
        inputs |= self._inputs.text_on("source") if "encoder" in stage.sides_with_text else {}
        inputs |= self._text.copies if "decoder" in stage.sides_with_text else {}
        inputs |= {"generator": generator} if generator else {}
        if stage.reads_upstream_text and self.experiment.upstream.corpus is not None:
            inputs["other"] = self._inputs.upstream_corpus
        start = f" from {system.starts_from or 'mean'}" if method.has_start else ""
        return Step(stage, method.name.replace("-", " ") + start, inputs)

    def _vocabulary_inputs(self, vocabularies: Mapping[SideName, Step]) -> dict[str, Step]:
        """Vocabularies as inputs of a step."""
        return {f"vocabulary/{side}": vocabularies[side] for side in self.experiment.sides}
