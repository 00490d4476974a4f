"""A language model gets a source."""

from __future__ import annotations

from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.contrib.conditioning.conditional_model import conditioned
from subgraft.contrib.conditioning.source_encoders import encoder_of
from subgraft.contrib.conditioning.source_settings import conditioning_settings, pretrained_source
from subgraft.contrib.conditioning.stage import ConditionStage
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.conditioning.settings import PretrainedTextSourceSettings
from subgraft.modeling.families import Parameters
from subgraft.modeling.heads import require_token_head
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.stage import Inputs, Summary


def condition_model(stage: ConditionStage, inputs: Inputs, out: Path) -> Summary:
    """Raises UserError if a source before the target leaves no position for it."""
    bundle, corpus = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"])
    require_token_head(bundle.model)
    reader = Bundle.load(inputs["reader"]) if "reader" in inputs else None
    source_tokenizer = (
        reader.encoder if reader else Tokenizer.load(inputs["encoder"]) if "encoder" in inputs else bundle.decoder
    )
    pretrained = _pretrained_source(reader, stage) if reader else None
    settings = conditioning_settings(
        stage.variant, stage.source, stage.settings, corpus, len(source_tokenizer), pretrained, stage.copying
    )
    model = conditioned(bundle.model, settings, stage.seed, reader.model if reader else None)
    conditioned_bundle = Bundle(model, source_tokenizer, bundle.decoder)
    if conditioned_bundle.max_positions < 2:
        hint = "Give a model of more positions, or read less of a source (conditioning.max_length)."
        raise UserError(f"the source takes all {bundle.max_positions} positions of the model", hint=hint)
    conditioned_bundle.save(out)
    new_parameters = model.num_parameters() - bundle.model.num_parameters()
    source = settings.source
    source_record = (
        {"classes": list(source.classes)} if source.kind == "class" else {"source": source.model_dump(mode="json")}
    )
    return {"parameters": model.num_parameters(), "new_parameters": new_parameters, **source_record}


def _pretrained_source(reader: Bundle, stage: ConditionStage) -> PretrainedTextSourceSettings:
    """The settings of a source that a pretrained model reads, with that model's special tokens for the language."""
    encoder, config = encoder_of(reader.model), reader.model.config.to_dict()
    parameters = Parameters(encoder.num_parameters(), encoder.num_parameters(only_trainable=True))
    languages = None if stage.language is None else Languages(source=stage.language, target=stage.language)
    return pretrained_source(config, stage.settings.max_length, reader.sequence_format(languages), parameters)
