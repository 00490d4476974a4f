"""What can be known before any step runs: whether corpora and checkpoints are fit for the experiment."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from subgraft.config import Experiment
from subgraft.errors import UserError
from subgraft.models.conditioning import conditioning, language_code
from subgraft.models.hub import position_limit, read_config
from subgraft.models.load import require_model
from subgraft.models.tokenizers import load_tokenizers
from subgraft.settings import Split
from subgraft.text.sources import FileSource, ResolvedSource


def require_corpus(source: ResolvedSource, splits: Iterable[Split], name: str) -> None:
    """Raises UserError for a split that is missing and, of files on this machine, for any that cannot be used."""
    missing = [split for split in splits if split not in source.splits]
    if missing:
        mend = f"It has: {', '.join(source.splits)}."
        raise UserError(f"the experiment needs its {missing[0]} split", where=f"corpora.{name}", mend=mend)
    if isinstance(source, FileSource):
        for split in source.splits:
            source.size(split)


def require_checkpoint(model: str, experiment: Experiment) -> Path:
    """The directory of a checkpoint, found or fetched.

    Raises UserError for one that cannot be loaded, has no encoder, or lacks the tokens of languages or objective.
    """
    directory = require_model(model)
    config, tokenizers = read_config(directory), load_tokenizers(directory)
    family: str = config["model_type"]
    if "encoder" not in tokenizers:
        raise UserError(f"a {family} model has no encoder, so it cannot translate", where=str(directory))
    if (family == "bert") != (experiment.upstream.objective == "masked"):
        raise UserError(
            f"a {family} model was not pretrained with the objective {experiment.upstream.objective}",
            where=str(directory),
            mend="upstream.objective masked is for BERT, and BERT for nothing else.",
        )
    longest = max(experiment.generator_training.max_length, experiment.finetune.max_length)
    if longest > (position_limit(config) or longest):
        raise UserError(f"a max_length of {longest} is beyond what the checkpoint takes", where=str(directory))
    decoder, languages = tokenizers["decoder"], experiment.languages
    conditioning(family, tokenizers["encoder"], decoder, languages)
    if experiment.upstream.objective == "masked" and "mask" not in decoder.special:
        raise UserError("masking needs a mask token, and the vocabulary has none", where=str(directory))
    if experiment.upstream.objective == "denoising":
        for language in (languages.source, languages.target):
            language_code(decoder, language)
        if "mask" not in decoder.special:
            raise UserError("denoising needs a mask token, and the vocabulary has none", where=str(directory))
    return directory
