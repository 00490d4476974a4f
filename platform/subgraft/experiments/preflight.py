"""Checks before any step runs: whether checkpoints and libraries suit the experiment."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.experiment import Experiment
from subgraft.config.settings_base import OPTIONAL_ENGINES, DecodingEngine, SideName
from subgraft.data.tasks.question_generation import require_marks
from subgraft.embeddings.methods.registry import method_spec, names_with
from subgraft.modeling.conditioning.variants.registry import VARIANTS
from subgraft.modeling.families import (
    Family,
    MissingCodeError,
    SequenceFormat,
    family_of,
    language_code,
    require_marked_targets,
)
from subgraft.modeling.families.sequence_format import unsupported_blocks_error
from subgraft.modeling.hub import read_config, require_model
from subgraft.modeling.tokenizers import load_tokenizers, with_languages
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.labelled import LabelledPairsSettings, LabelledSettings
from subgraft.training.objectives.registry import ObjectiveSettings


def require_libraries(experiment: Experiment) -> None:
    """Raises UserError where the experiment needs DeepSpeed, peft or an engine that is not installed here."""
    if experiment.runtime.zero_stage is not None and find_spec("deepspeed") is None:
        hint = "pip install 'subgraft[deepspeed]', or leave it out."
        raise UserError("DeepSpeed is not installed", where="runtime.zero_stage", hint=hint)
    with_adapters = [
        each.name for each in experiment.systems if each.finetuning(experiment.finetune).train == "adapters"
    ]
    if with_adapters and find_spec("peft") is None:
        hint = "pip install 'subgraft[adapters]', or train something else."
        raise UserError(
            "train: adapters needs peft, which is not installed", where=f"system {with_adapters[0]}", hint=hint
        )
    engines = {
        "evaluation.engine": experiment.evaluation.engine,
        "pretrain.dev_engine": experiment.pretrain.dev_engine,
        "finetune.dev_engine": experiment.finetune.dev_engine,
    }
    for where, engine in engines.items():
        facts = OPTIONAL_ENGINES.get(cast(DecodingEngine, engine))
        if facts is not None and find_spec(facts.module) is None:
            hint = f"pip install 'subgraft[{facts.extra}]', or leave it out."
            raise UserError(f"{facts.title} is not installed", where=where, hint=hint)


def require_checkpoint(model: str, experiment: Experiment) -> Path:
    """The directory of a checkpoint, found or fetched.

    Raises UserError for one that cannot be loaded, or that lacks the tokens of languages or objective.
    """
    directory = require_model(model, body=experiment.starts_from_body)
    config, tokenizers = read_config(directory), _with_new_languages(directory, experiment)
    family, decoder, languages = family_of(config), tokenizers["decoder"], experiment.upstream_languages
    encoder = tokenizers.get("encoder", decoder)
    format_of = partial(_format, family, config, encoder, decoder, where=str(directory))
    for pair in (languages, experiment.languages):
        format_of(pair)
    formats = {each.target: format_of(each.languages) for each in experiment.directions}
    require_marked_targets(formats, str(directory))
    require_marks(experiment.marks, encoder, str(directory))
    require_head(experiment, config, str(directory))
    for objective in experiment.upstream.objectives:
        _require_pretrained_on(objective, family, decoder, languages, directory)
        if objective.predicts_next:
            _require_next_sentence(config, experiment.upstream.continue_pretraining, directory)
    if experiment.evaluation.engine == "llamacpp":
        from subgraft.modeling.exporting.llama_cpp import require_engine_at  # imports torch

        require_engine_at(directory, str(directory))
    if any(system.source_encoder for system in experiment.systems):
        family.with_source_encoder(config, 1, 1)
    require_ends_of_blocks(experiment, config, str(directory))
    _require_size(config, experiment, directory)
    _require_source_support(family, experiment, directory)
    longest = experiment.longest_of_checkpoint
    if longest > (family.position_limit(config) or longest):
        raise UserError(f"a max_length of {longest} is beyond the checkpoint's limit", where=str(directory))
    return directory


def _with_new_languages(directory: Path, experiment: Experiment) -> dict[SideName, Tokenizer]:
    """A checkpoint's vocabularies with the codes of `upstream.new_languages`."""
    try:
        return with_languages(load_tokenizers(directory), experiment.upstream.new_languages)
    except UserError as error:
        if not experiment.upstream.new_languages:
            raise
        raise UserError(f"upstream.new_languages: {error.what}", where=str(directory), hint=error.hint) from error


def _format(
    family: Family,
    config: Mapping[str, Any],
    encoder: Tokenizer,
    decoder: Tokenizer,
    languages: Languages,
    *,
    where: str,
) -> SequenceFormat:
    """How a checkpoint marks two languages; a refusal names the setting that adds a code."""
    try:
        return family.sequence_format(config, encoder, decoder, languages)
    except MissingCodeError as error:
        add = f"Give it one: `upstream.new_languages: {{{error.language}: mean}}`. {error.hint}"
        raise UserError(error.what, where=where, hint=add) from error


def require_head(experiment: Experiment, config: Mapping[str, Any], where: str) -> None:
    """Raises UserError for a task of labels, or a system, whose head the model of a config.json cannot have."""
    objective = experiment.finetuned_on
    if isinstance(objective, LabelledSettings | LabelledPairsSettings):
        from subgraft.modeling.heads import require_body_for, require_head_class
        from subgraft.training.understanding.registry import TASK_CLASSES

        try:
            head = TASK_CLASSES[objective.task].head
            require_head_class(config, head)
            if head in ("sequence", "choice"):
                _require_seen_text(experiment)
            for settings in (objective.labels.head, *(system.head for system in experiment.systems)):
                if settings is not None:
                    require_body_for(settings, config, where)
        except UserError as error:
            raise UserError(error.what, where=where, hint=error.hint) from error


def require_ends_of_blocks(experiment: Experiment, config: Mapping[str, Any], where: str) -> None:
    """Raises UserError where a system translates documents and the model of a config.json cannot."""
    family, systems = family_of(config), [system.name for system in experiment.systems if system.documents]
    if systems and not family.ends_blocks(config):
        refused = unsupported_blocks_error(family.model_type)
        raise UserError(f"system {systems[0]}: {refused.what}", where=where, hint=refused.hint)


def _require_seen_text(experiment: Experiment) -> None:
    """Refuse heads on an encoder's first state if that state attends to no other token."""
    one_sided = [each.kind for each in experiment.upstream.objectives if each.one_sided]
    for system in experiment.systems if one_sided else ():
        objective = experiment.objective_of(system)
        if isinstance(objective, LabelledSettings | LabelledPairsSettings) and objective.labels.head is None:
            raise UserError(
                f"system {system.name} classifies by the first state, which sees no other token after {one_sided[0]}",
                hint="Give it a head that reads all states: `labels: {head: {kind: bilstm}}`.",
            )


def _require_pretrained_on(
    objective: ObjectiveSettings, family: Family, decoder: Tokenizer, languages: Languages, directory: Path
) -> None:
    """Refuse an objective that a checkpoint of this family cannot have been pretrained on."""
    if objective.kind not in family.objectives:
        raise UserError(
            f"a {family.model_type} model was not pretrained with the objective {objective.kind}",
            where=str(directory),
            hint=f"Write upstream.objectives: [{{kind: {' or '.join(sorted(family.objectives))}}}].",
        )
    for language in (languages.source, languages.target) if objective.needs_language_codes else ():
        language_code(decoder, language)
    if objective.needs_mask and "mask" not in decoder.special:
        message = f"the objective {objective.kind} needs a mask token, and the vocabulary has none"
        raise UserError(message, where=str(directory))


def _require_next_sentence(config: Mapping[str, Any], continued: bool, directory: Path) -> None:
    """Refuse next-sentence prediction for a checkpoint without its head, which only pretraining adds."""
    family = family_of(config)
    if family.predicts_next_sentence(config) or (continued and family.next_sentence_class is not None):
        return
    other = "" if family.next_sentence_class is None else ", or `upstream.continue_pretraining: true`, which adds one"
    raise UserError(
        f"this {family.model_type} model has no head for next sentences",
        where=str(directory),
        hint=f"Write `next_sentence: false` in upstream.objectives{other}.",
    )


def _require_source_support(family: Family, experiment: Experiment, directory: Path) -> None:
    """Refuse systems that add attention to a source to layers of a checkpoint that cannot have it."""
    config = read_config(directory)
    if family.embedding_width(config) != family.width(config) and any(each.conditioning for each in experiment.systems):
        message = f"this {family.model_type} model has embeddings narrower than its hidden states, and takes no source"
        raise UserError(message, where=str(directory), hint="Leave out conditioning, or take another model.")
    unsupported = (
        []
        if family.attends_to_source
        else [each for each in experiment.systems if each.conditioning and VARIANTS[each.conditioning].in_layers]
    )
    if unsupported:
        message = f"a {family.model_type} model does not support attention to a source"
        hint = f"Leave out conditioning {unsupported[0].conditioning} (system {unsupported[0].name}), or take a GPT-2."
        raise UserError(message, where=str(directory), hint=hint)


def _require_size(config: Mapping[str, Any], experiment: Experiment, directory: Path) -> None:
    """Refuse settings that do not fit the checkpoint: its depth, and its tables' width."""
    assembled = config if experiment.finetuned_on.understands else family_of(config).assembled(config)
    family = family_of(assembled)
    depth = min(family.layers(assembled, side) for side in experiment.sides)
    for name, layer in experiment.distilled_layers.items():
        if layer > depth:
            raise UserError(f"{name} {layer} is beyond its {depth} layers", where=str(directory))
    width = family.embedding_width(assembled)
    vectors = experiment.static_embeddings.dimensions or experiment.model.width_of_rows
    if any(method_spec(system.initialiser).unmapped for system in experiment.systems) and vectors != width:
        unmapped = " and ".join(names_with("unmapped"))
        raise UserError(
            f"its rows have {width} dimensions, static embeddings {vectors}, and {unmapped} use these unchanged",
            where=str(directory),
            hint=f"Say static_embeddings.dimensions: {width}.",
        )
