"""FinetunedModel and Corpus → Evaluation of a model that answers in conversations.

Bits per character are of the answers that are learnt. The last answer of each conversation is generated from the turns
before it, and scored against its reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from math import log
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from subgraft.base.errors import UserError
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.bits_per_character import count_characters
from subgraft.evaluation.metrics.scores import AnyMetricName
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.inference.prompts import one_line
from subgraft.pipeline.artifacts import BITS, CHARACTERS, EVALUATION, STATISTICS, write_evaluation
from subgraft.pipeline.compute.continuation import continuer_by_engine
from subgraft.pipeline.compute.outputs import measure_length, output_counts, search_speed, warm_up, write_texts
from subgraft.pipeline.compute.sourced import overlap, score_figures, scores_to_json, statistics_by_name
from subgraft.pipeline.stages.evaluation import EvaluateStage
from subgraft.subwords.vocabulary.spelling import spelling
from subgraft.training.context import Context, Json
from subgraft.training.objectives.compute.conversations import Turns, answer_nats, answers_of, template_of
from subgraft.training.objectives.conversations import ConversationSettings
from subgraft.training.setup import device
from subgraft.training.stage import Inputs, Summary

_METRICS: tuple[AnyMetricName, ...] = ("BLEU", "chrF", "ROUGE-1", "ROUGE-2", "ROUGE-L")


def measure(stage: EvaluateStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    """Raises UserError if no test conversation fits into the model."""
    bundle, corpus, settings = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"]), stage.evaluation
    assert isinstance(stage.objective, ConversationSettings)
    bundle.model.to(device())  # type: ignore[arg-type]
    conversations = list(islice(corpus.conversations(stage.split), settings.test_sentences))
    template = template_of(bundle.decoder)
    bits, characters = _measure_bits(bundle, conversations, stage.objective, context)
    prompts = [turns[:-1] for turns in conversations]
    references = [one_line(turns[-1]["content"]) for turns in conversations]
    # Prompts that leave room for an answer and spell no special token; the answers to the others are empty.
    answerable = [
        index
        for index, prompt in enumerate(prompts)
        if template.special_in(prompt) is None and len(template.prompt_ids(prompt)) < bundle.max_positions
    ]
    lengths = [len(template.prompt_ids(prompt)) for prompt in prompts]
    # The limit is the longest reference with its end, so that a model that does not stop does not take long.
    max_tokens = max(len(tokens) for tokens in bundle.decoder.encode_batch(references)) + 1
    write = continuer_by_engine(bundle, stage.languages, settings, max_tokens, template)
    answerable_prompts = [prompts[index] for index in answerable]
    warm_up(write, answerable_prompts, settings)
    outputs = dict(zip(answerable, write(answerable_prompts, settings.batch_size, context.progress), strict=True))
    counts = output_counts(write)
    speed = search_speed(write, answerable_prompts, settings) if stage.speed else None
    answers = [outputs.get(index, "") for index in range(len(prompts))]

    scored = overlap(answers, references, stage.languages.target, _METRICS)
    save_file({BITS: bits, CHARACTERS: characters, **statistics_by_name(scored)}, out / STATISTICS)
    write_texts(out, references=references, prompts=[_in_words(prompt) for prompt in prompts], continuations=answers)
    summary: Summary = {
        "bits_per_character": float(bits.sum() / characters.sum()),
        "lines_left_out": int((characters == 0).sum()),
        "prompts_left_out": len(prompts) - len(answerable),
        "tokens_per_prompt": float(np.mean(lengths)),
        **counts,
        **score_figures(scored),
    }
    result: dict[str, Json] = summary | {
        **measure_length(bundle, references),
        "speed": asdict(speed) if speed else None,
        "parameters": bundle.model.num_parameters(),
        "sentences": len(conversations),
        "spelling": asdict(spelling(bundle.decoder, references)),
        "scores": scores_to_json(scored),
    }
    write_evaluation(result, out)
    signatures: dict[str, Json] = {scored_metric.score.name: scored_metric.score.signature for scored_metric in scored}
    return summary | {"signatures": signatures, "artifacts": [EVALUATION]}


def _measure_bits(
    bundle: Bundle, conversations: Sequence[Turns], objective: ConversationSettings, context: Context
) -> tuple[np.ndarray, np.ndarray]:
    """The bits and characters of the learnt answers of each conversation [n]; both 0 if it does not fit into the model.

    Raises UserError if none fits.
    """
    learnt_turns = objective.chat.turns
    bits, characters = np.zeros(len(conversations)), np.zeros(len(conversations))
    for index, nats in answer_nats(bundle, conversations, learnt_turns, context.progress):
        bits[index] = nats.sum() / log(2)
        characters[index] = count_characters([answers_of(conversations[index], learnt_turns)])
    if not characters.any():
        raise UserError(f"no test conversation fits into the {bundle.max_positions} tokens that the model takes")
    return bits, characters


def _in_words(prompt: Turns) -> str:
    """The turns in one line, with their roles if there are several."""
    if len(prompt) == 1:
        return one_line(prompt[0]["content"])
    return " ".join(f"[{turn['role']}] {one_line(turn['content'])}" for turn in prompt)
