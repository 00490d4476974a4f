"""FinetunedModel and Corpus → Evaluation of a model that continues text: bits per character, length, speed and size."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from safetensors.numpy import save_file

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.evaluation import MeasurementSettings
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.ctranslate2 import fast_continuer
from subgraft.modeling.exporting.llama_cpp import LlamaCppContinuer, LlamaCppModel
from subgraft.modeling.inference.continue_text import Continuer
from subgraft.modeling.inference.prompts import ChatTemplate
from subgraft.pipeline.artifacts import BITS, CHARACTERS, EVALUATION, STATISTICS, write_evaluation
from subgraft.pipeline.compute.outputs import measure_length, output_counts, search_speed, warm_up, write_texts
from subgraft.pipeline.stages.evaluation import EvaluateStage
from subgraft.subwords.vocabulary.spelling import spelling
from subgraft.training.context import Context, Json
from subgraft.training.objectives.compute.causal import line_bits
from subgraft.training.setup import device
from subgraft.training.stage import Inputs, Summary

if TYPE_CHECKING:
    from subgraft.training.objectives.causal import CausalSettings


def measure(stage: EvaluateStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    """Raises UserError if no test line fits into the model."""
    bundle, corpus, settings = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"]), stage.evaluation
    lines = list(corpus.lines(stage.split, corpus.text_of("decoder")))[: settings.test_sentences]
    bundle.model.to(device())  # type: ignore[arg-type]
    objective = cast("CausalSettings", stage.objective)  # `MEASUREMENTS` calls this function for that kind only
    bits, characters = np.ascontiguousarray(line_bits(bundle, lines, objective, context.progress).T)
    if not bits.any():
        raise UserError(f"no test line fits into the {bundle.max_positions} tokens that the model takes")
    save_file({BITS: bits, CHARACTERS: characters}, out / STATISTICS)
    write = continuer_by_engine(bundle, stage.languages, settings)
    prompts = [prompt_of(line) for line in lines[: settings.speed_sentences]]
    warm_up(write, prompts, settings)
    outputs = write(prompts, settings.batch_size)
    counts, tokens = output_counts(write), write.tokens
    speed = search_speed(write, prompts, settings) if stage.speed else None
    write_texts(out, references=lines, prompts=prompts, continuations=outputs)
    length = measure_length(bundle, lines)
    # The tokens that the vocabulary needs for the text that was written.
    whole = bundle.decoder.encode_batch([prompt + output for prompt, output in zip(prompts, outputs, strict=True)])
    needed = sum(map(len, whole)) - sum(map(len, bundle.decoder.encode_batch(prompts)))
    result: dict[str, Json] = {
        "bits_per_character": float(bits.sum() / characters.sum()),
        "lines_left_out": int(np.count_nonzero(bits == 0)),
        **length,
        "written": {"outputs": len(outputs), "tokens": tokens, "needed": needed, "characters": sum(map(len, outputs))},
        "speed": asdict(speed) if speed else None,
        "parameters": bundle.model.num_parameters(),
        "sentences": len(lines),
        **counts,
        "spelling": asdict(spelling(bundle.decoder, lines)),
    }
    write_evaluation(result, out)
    return {
        "bits_per_character": result["bits_per_character"],
        "lines_left_out": result["lines_left_out"],
        **({"sentences_per_second": speed.median} if speed else {}),
        "characters_per_token": length["characters_per_token"],
        **counts,
        "artifacts": [EVALUATION],
    }


def continuer(
    bundle: Bundle,
    languages: Languages | None,
    settings: MeasurementSettings,
    max_tokens: int | None = None,
    chat: ChatTemplate | None = None,
) -> Continuer:
    """Search with the settings of the evaluation, on the GPU where there is one."""
    return Continuer(
        bundle.model.to(device()),  # type: ignore[arg-type]
        bundle.decoder,
        bundle.sequence_format(languages).start,
        beam=settings.beam,
        max_length_ratio=settings.max_length_ratio,
        max_positions=bundle.max_positions,
        max_tokens=max_tokens,
        chat=chat,
    )


def continuer_by_engine(
    bundle: Bundle,
    languages: Languages | None,
    settings: MeasurementSettings,
    max_tokens: int | None = None,
    chat: ChatTemplate | None = None,
) -> Continuer | LlamaCppContinuer:
    """A continuer with the configured engine. Raises UserError if the engine does not support the model."""
    if settings.engine == "transformers":
        return continuer(bundle, languages, settings, max_tokens, chat)
    ratio = settings.max_length_ratio
    if settings.engine == "llamacpp":
        model = LlamaCppModel.of_bundle(bundle)
        return LlamaCppContinuer(model, max_length_ratio=ratio, max_tokens=max_tokens, chat=chat)
    bundle.model.to(device())  # type: ignore[arg-type]
    return fast_continuer(
        bundle, languages, beam=settings.beam, max_length_ratio=ratio, max_tokens=max_tokens, chat=chat
    )


def prompt_of(line: str) -> str:
    """The first half of a line's words; of a line of one word, or without white space, half of its characters."""
    words = line.split()
    return " ".join(words[: len(words) // 2]) if len(words) > 1 else line[: (len(line) + 1) // 2]
