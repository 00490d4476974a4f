"""Small experiments of every kind, which `tests/same_results.py` records: their texts and models, and a table of them.

All of them read the same folder and can share a store, so that equal steps are made once.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from entities import LINES, names, spans
from instruct import INSTRUCT
from labelled import RECORDS, write_files
from scripts import SCRIPTS, text_in
from small_experiments import written
from subgraft.modeling.bundle import Bundle
from subgraft.subwords.vocabulary.learn import learn
from task_files import write_task
from toys import (
    SHAPE,
    build_marian,
    build_mbart,
    english,
    english_tokenizer,
    german,
    german_tokenizer,
    publish_bert,
)

NETWORK = "imported-network"  # the folder of a network that was trained by an experiment of this name without it

_SIZES = {"train": 40, "dev": 6, "test": 6}
_TASKS = {task: {"labelled": {"folder": task, **columns}} for task, (_, columns) in RECORDS.items()}
BASE = """\
name: small
corpora:
  upstream: {folder: upstream}
  downstream: {folder: downstream}
  english: {folder: upstream, languages: [en]}
  german: {folder: upstream, languages: [de]}
  french: {folder: french}
  three: {texts: {en: {files: {train: [three.en]}}, de: {files: {train: [three.de]}},
    nl: {files: {train: [three.nl]}}}}
  chapters: {records: {folder: chapters, fields: {en: {}, de: {}}, document: document}}
  annotated: {records: {folder: annotated, document: document, fields: {en: {language: en},
    entities: {kind: spans, of: en}, facts: {kind: triples, of: en}}}}
  talks: {conversations: {folder: talks}}
  classes: {records: {folder: classes, fields: {text: {language: en}, label: {kind: label}}}}
  stories: {columns: {folder: stories, source: story, target: reply}}
  features: {features: {folder: features}}
  new-script: {folder: new-script}
  questions: {squad: questions}
CORPORA_OF_TASKS
cleaning: {drop_held_out: false, deduplicate: false}
upstream: {corpus: upstream, vocabulary: {size: 90, byte_fallback: false}}
downstream: {corpus: downstream, vocabulary: {size: 100, byte_fallback: false}}
model: {d_model: 16, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 16}
pretrain: {epochs: null, max_steps: 5, batch_size: 500, max_length: 64, precision: fp32, dev_sentences: 10}
generator_training: {max_steps: 3, batch_size: 500, max_length: 64, precision: fp32}
finetune: {epochs: null, max_steps: 3, batch_size: 500, max_length: 64, precision: fp32, dev_sentences: 3,
  select: last}
static_embeddings: {dimensions: 16, epochs: 1}
systems:
  - {name: old, vocabulary: upstream}
  - {name: mean, initialiser: mean}
evaluation: {beam: 1, max_length_ratio: 1.0, speed_sentences: 2, speed_repeats: 1, test_sentences: 3,
  bootstrap_samples: 20, by_token_count: false}
""".replace("CORPORA_OF_TASKS\n", "".join(f"  {task}: {json.dumps(source)}\n" for task, source in _TASKS.items()))
"""A Marian, and every corpus that an experiment may name; without languages, as several directions name their own."""

Changes = tuple[str, ...]
Experiments = Mapping[str, Changes]

_LEARNING = "{max_steps: 3, batch_size: 400, max_length: 64, precision: fp32}"
_PATT = "systems=[{name: old, vocabulary: upstream}, {name: patt, initialiser: patt, kd_weight: 0.5}]"
_TWO_STACKS = "d_model: 16, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 16"
_ONE_STACK = "d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16, max_positions: 128"
_MBART: Changes = ("model.family=mbart", "upstream.objectives=[{kind: denoising}]")
_FROM_ENGLISH, _ENGLISH = "languages={source: en, target: de}", "languages={source: en, target: en}"
_AT_MOST_40 = tuple(f"{training}.max_length=40" for training in ("pretrain", "generator_training", "finetune"))
_SHARED = "downstream.shared=true"


def _pretrained_on(corpus: str, objectives: str, kind: str, size: int = 100, more: str = "") -> Changes:
    """English text for one stack, with vocabularies of this kind."""
    vocabulary = f"{{kind: {kind}, size: {size}, byte_fallback: false}}"
    return (
        _ENGLISH,
        f"upstream={{corpus: {corpus}, objectives: [{objectives}], vocabulary: {vocabulary}{more}}}",
        f"downstream.vocabulary={vocabulary}",
        f"downstream.vocabulary.size={size + 20}",
    )


def _one_stack(family: str, *changes: str, shape: str = "") -> Changes:
    return (f"model={{family: {family}, {_ONE_STACK}{shape}}}", *changes)


_BERT = _one_stack("bert", *_pretrained_on("english", "{kind: masked}", "wordpiece"))
_GPT2 = _one_stack("gpt2", *_pretrained_on("english", "{kind: causal}", "unigram", size=65))
_ENGLISH_BART: Changes = (
    "sides=[encoder, decoder]",
    "upstream={corpus: english, objectives: [{kind: denoising}], vocabulary: {size: 90, byte_fallback: false}}",
    f"model={{family: bart, {_TWO_STACKS}}}",
)
_CLASSES: Changes = ("task=classification", "downstream.corpus=classification")
_READING = (
    "conditioning={%s, max_length: 12, encoder: {layers: 1, attention_heads: 2, dropout: 0.0},"
    " decoder: {d_model: 8, layers: 1, attention_heads: 2, dropout: 0.0}}"
)
_WAYS = ["pseudo-self", "context-attention", "cross-attention", "prepend", "simple-fusion", "representation", "none"]
_CONDITIONED = ", ".join(f"{{name: {way}, initialiser: mean, conditioning: {way}}}" for way in _WAYS)
_MORE_TEXT = "downstream.text={target: [more.txt], source: [read.txt]}"

_TRANSLATIONS: Experiments = {
    "initialisers": (
        "systems=[{name: old, vocabulary: upstream}, {name: random, initialiser: random},"
        " {name: random-matched, initialiser: random-matched}, {name: mean, initialiser: mean},"
        " {name: avg, initialiser: avg}, {name: reconstruction, initialiser: reconstruction},"
        " {name: word2vec, initialiser: word2vec}, {name: word2vec-mapped, initialiser: word2vec-mapped},"
        " {name: cbow, initialiser: cbow}, {name: focus, initialiser: focus}, {name: wechsel, initialiser: wechsel},"
        " {name: omp, initialiser: omp}, {name: locally-linear, initialiser: locally-linear}]",
        "intrinsic={tokens: 4}",
        "evaluation.by_token_count=true",
    ),
    "generators": (
        "systems=[{name: att, initialiser: att}, {name: patt, initialiser: patt, kd_weight: 0.5},"
        " {name: tied, initialiser: patt, kd_weight: 0.5, tie_to_sources: true},"
        " {name: longer, initialiser: patt, generator_steps: 4}]",
        "intrinsic={tokens: 4}",
    ),
    "both-sides": (
        "sides=[encoder, decoder]",
        "generator.resegmentation.match=downstream",
        "generator.negatives=batch",
        _PATT,
    ),
    "learned-rows": (
        f"token_distillation_training={_LEARNING}",
        f"attention_influence_training={_LEARNING}",
        f"likelihood_matching_training={_LEARNING}",
        f"vocadt_training={_LEARNING}",
        f"fitted_training={_LEARNING}",
        "systems=[{name: token-distillation, initialiser: token-distillation},"
        " {name: attention-influence, initialiser: attention-influence},"
        " {name: likelihood-matching, initialiser: likelihood-matching},"
        " {name: on-patt, initialiser: likelihood-matching, starts_from: patt}, {name: vocadt, initialiser: vocadt},"
        " {name: fitted, initialiser: fitted}]",
    ),
    "network": (
        f"network_training={_LEARNING}",
        "network={width: 8, layers: 1, domains: 2, sentences: 40}",
        "systems=[{name: network, initialiser: network, kd_weight: 0.5}]",
    ),
    NETWORK: (
        f"network_training={_LEARNING}",
        f"network={{trained: {NETWORK}}}",
        "systems=[{name: network, initialiser: network}]",
    ),
    "donor": (
        "systems=[{name: linear, initialiser: donor, donor: {model: donor, mapping: linear}},"
        " {name: omp, initialiser: donor, donor: {model: donor, atoms: 4}}]",
    ),
    "vocabularies": (
        "systems=[{name: extended, initialiser: mean, vocabulary_mode: extend, vocabulary_size: 50},"
        " {name: trimmed, vocabulary_mode: trim}, {name: small, initialiser: mean, vocabulary_size: 80},"
        " {name: min-count, initialiser: mean, vocabulary_size: 70, vocabulary_min_count: 2},"
        " {name: not-copied, initialiser: mean, copy_shared_tokens: false}]",
    ),
    "trained-parameters": (
        "systems=[{name: body, initialiser: random, train: body}, {name: rows, initialiser: mean, train: new-rows},"
        " {name: adapters, initialiser: mean, train: adapters},"
        " {name: rare, initialiser: mean, rare_tokens: {min_count: 10, l2_to_init: 0.1}},"
        " {name: frozen, initialiser: mean, embedding_learning_rate: 0},"
        " {name: embeddings-first, initialiser: mean, embeddings_only_fraction: 0.5},"
        " {name: rate, initialiser: mean, learning_rate: 0.01, embedding_learning_rate: 0.02}]",
    ),
    "pretrainings": (
        "pretrain.save_every=2",
        "joint_vocabulary={size: 110, byte_fallback: false}",
        "systems=[{name: two, vocabulary: upstream, pretraining_step: 2},"
        " {name: sampled, vocabulary: upstream, pretraining: sampled}, {name: own, pretraining: downstream-vocabulary},"
        " {name: joint, pretraining: joint-vocabulary}, {name: none, pretraining: none}]",
        "evaluation.upstream_sentences=3",
    ),
    "selected": (
        "finetune={epochs: 4, batch_size: 500, max_length: 64, precision: fp32, dev_sentences: 3, patience: 2}",
        "evaluation={beam: 2, speed_sentences: 2, speed_repeats: 1, bootstrap_samples: 20, metrics: [ROUGE-1]}",
        "seeds=[1, 2]",
    ),
    "transformers-decoding": ("evaluation.engine=transformers", "finetune.dev_engine=transformers"),
    "ctranslate2-decoding": (
        "evaluation.engine=ctranslate2",
        "evaluation.speed_measured=in-translation",
        "finetune.dev_engine=ctranslate2",
    ),
    "denoising": (
        *_MBART,
        "systems=[{name: old, vocabulary: upstream}, {name: patt, initialiser: patt, kd_weight: 0.5},"
        " {name: sampled, vocabulary: upstream, pretraining: sampled}]",
    ),
    "m2m-100": ("model.family=m2m_100", _SHARED, "sides=[encoder, decoder]", _PATT),
    "t5": ("model.family=t5", _SHARED, "sides=[encoder, decoder]", _PATT),
    "encoder-decoder-of-bert": (
        f"model={{family: bert, {_ONE_STACK}}}",
        "upstream={corpus: upstream, objectives: [{kind: masked}], vocabulary: {kind: wordpiece, size: 100}}",
        "downstream.vocabulary={kind: wordpiece, size: 120}",
        _PATT,
    ),
    "source-encoder": (
        f"model={{family: bart, {_TWO_STACKS}}}",
        "upstream={corpus: german, languages: {source: de, target: de}, objectives: [{kind: denoising,"
        " noises: {masking: 0.1, deletion: 0.1, infilling: 0.2, permutation: 1, rotation: 0.5}},"
        " {kind: masked-seq2seq}], vocabulary: {size: 90, byte_fallback: false}}",
        _SHARED,
        "sides=[encoder, decoder]",
        "systems=[{name: foreign, vocabulary: upstream, source_encoder: {layers: 1}}]",
    ),
    "copied-text": (
        _MORE_TEXT,
        "embedding_warmup_training={max_steps: 3, batch_size: 300, max_length: 64, precision: fp32, dev_sentences: 2}",
        "systems=[{name: text, initialiser: focus, text: copied},"
        " {name: warm-up, initialiser: mean, embedding_warmup: copied}]",
    ),
    "back-translation": (
        _MORE_TEXT,
        "back_translation={rounds: 2, max_length_ratio: 1.0}",
        "systems=[{name: rounds, initialiser: mean, text: back-translated}]",
    ),
    "sampled-back-translation": (
        _MORE_TEXT,
        "back_translation={model: de-en, sample: true, max_length_ratio: 1.0}",
        "systems=[{name: old, vocabulary: upstream, text: back-translated}]",
    ),
    "denoised-text": (*_MBART, _MORE_TEXT, "systems=[{name: old, vocabulary: upstream, text: denoised}]"),
    "unsupervised": (
        *_MBART,
        _MORE_TEXT,
        "unsupervised={rounds: 2, updates: 3, sentences: 8, constrained_rounds: 1, max_length_ratio: 1.0}",
        "finetune={epochs: 1, batch_size: 500, max_length: 64, precision: fp32, dev_sentences: 2, warmup_steps: 2}",
        # So long that it writes something.
        "pretrain={epochs: null, max_steps: 150, batch_size: 500, max_length: 64, precision: fp32, learning_rate: 0.01,"
        " warmup_steps: 20}",
        "systems=[{name: alone, vocabulary: upstream, unsupervised: true}]",
    ),
    "documents": (
        "corpora.upstream={records: {folder: chapters, fields: {en: {}, de: {}}, document: document}}",
        "downstream={corpus: chapters, shared: true, vocabulary: {size: 100, byte_fallback: false}}",
        "upstream.languages=all",
        "upstream.objectives=[{kind: denoising}]",
        "sides=[encoder, decoder]",
        f"model={{family: mbart, {_TWO_STACKS}, max_positions: 160}}",
        "evaluation.documents=true",
        "systems=[{name: sentences, vocabulary: upstream}, {name: blocks, initialiser: mean, documents: 60},"
        " {name: han, vocabulary: upstream, context: han, context_sentences: 2}]",
    ),
    "many-languages": (
        *_MBART,
        "upstream={corpus: three, languages: all, objectives: [{kind: denoising}],"
        " vocabulary: {size: 90, byte_fallback: false, language_exponent: 0.5}}",
    ),
    "imported-vocabulary": (
        *_MBART,
        "upstream={corpus: three, objectives: [{kind: denoising}], vocabulary_path: multilingual}",
    ),
    "checkpoint": (
        "upstream={checkpoint: en-de}",
        "systems=[{name: old, vocabulary: upstream}, {name: avg, initialiser: avg}]",
    ),
    "new-language": (
        "languages={source: de, target: ukr}",
        "cleaning.max_ratio=null",
        "upstream={checkpoint: german-english, objectives: [{kind: denoising}], new_languages: {ukr: mean}}",
        "downstream={corpus: new-script, vocabulary: {size: 80, byte_fallback: false}}",
        "systems=[{name: old, vocabulary: upstream}, {name: own, initialiser: mean}]",
    ),
    "search": (
        "systems=[{name: old, vocabulary: upstream}, {name: searched, initialiser: patt, kd_weight: 0.5}]",
        "search={system: searched, sampler: grid, objectives: [dev_bleu], asha: null,"
        " space: {initialiser: [avg, patt], kd_weight: [0.0, 0.5], vocabulary_size: [80, 100]}}",
    ),
    "drawn-search": (
        "systems=[{name: old, vocabulary: upstream}, {name: searched, initialiser: patt, kd_weight: 0.5}]",
        "search={system: searched, sampler: tpe, trials: 2, objectives: [dev_bleu, sentences_per_second], asha: null,"
        " space: {initialiser: [avg, patt], kd_weight: {min: 0.0, max: 1.0}, vocabulary_size: [80, 100]}}",
    ),
}
_DIRECTIONS: Experiments = {
    "directions": (
        "downstream={vocabulary: {size: 100, byte_fallback: false}, shared: true}",
        "directions=[{source: en, target: de, corpus: downstream}, {source: fr, target: de, corpus: french},"
        " {source: de, target: en, corpus: upstream, train: false}]",
        "direction_exponent=0.5",
        "sides=[encoder, decoder]",
        "upstream={corpus: three, languages: all, objectives: [{kind: denoising}], language_exponent: 0.7,"
        " vocabulary: {size: 100, byte_fallback: false}}",
        "corpora.three={texts: {en: {files: {train: [three.en]}}, de: {files: {train: [three.de]}},"
        " fr: {files: {train: [french/train.fr]}}}}",
        f"model={{family: mbart, {_TWO_STACKS}, max_positions: 64}}",
    ),
}
_WRITERS: Experiments = {
    "continuation": (
        *_GPT2,
        "task=continuation",
        "downstream.corpus=english",
        "evaluation.upstream_sentences=3",
        f"{_PATT[:-1]}, {{name: untied, initialiser: mean, untie: true}}]",
    ),
    "llama": (
        *_one_stack("llama", *_GPT2[1:], shape=", key_value_heads: 1"),
        "task=continuation",
        "downstream.corpus=english",
    ),
    "chat": (
        _ENGLISH,
        "task=chat",
        "upstream={checkpoint: instruct, objectives: [{kind: causal}]}",
        "downstream={corpus: talks, vocabulary: {kind: byte-level-bpe, size: 400}}",
        "finetune.max_length=128",
        "finetune.batch_size=3000",
    ),
    "written-for-a-class": (
        *_GPT2,
        "task=class-conditional",
        "downstream.corpus=classes",
        "conditioning={vectors: 2, decoder: {d_model: 8, layers: 1, attention_heads: 2, dropout: 0.0}}",
        "evaluation.draw={temperature: 0.7, top_k: 20, seed: 3}",
        f"systems=[{{name: unconditional, vocabulary: upstream}}, {_CONDITIONED}]",
    ),
    "written-for-a-text": (
        *_GPT2,
        "task=text-conditional",
        "downstream.corpus=stories",
        _READING % "vocabulary: {size: 80, byte_fallback: false}",
        f"systems=[{{name: shuffled, vocabulary: upstream, conditioning: pseudo-self, shuffled_sources: true}},"
        f" {_CONDITIONED}]",
    ),
    "copied-from-a-text": (
        *_GPT2,
        "task=text-conditional",
        "downstream.corpus=stories",
        _READING % "shared_vocabulary: true, copy_threshold: 0.0",
        "finetune.label_smoothing=0",
        "systems=[{name: pointer, initialiser: mean, conditioning: pseudo-self, copying: pointer-generator},"
        " {name: bottom-up, initialiser: mean, conditioning: pseudo-self, copying: bottom-up}]",
    ),
    "read-by-a-pretrained-encoder": (
        *_GPT2,
        "task=text-conditional",
        "downstream.corpus=stories",
        _READING % "pretrained_encoder: en-de",
        "systems=[{name: ours, vocabulary: upstream, conditioning: pseudo-self}]",
    ),
    "written-for-features": (
        *_GPT2,
        "task=feature-conditional",
        "downstream.corpus=features",
        _READING % "vectors: 2",
        f"systems=[{_CONDITIONED}]",
    ),
    "question-generation": (
        _ENGLISH,
        "task=question-generation",
        "question_generation.marks=[day, day]",
        "downstream={corpus: questions, shared: true, vocabulary: {size: 100, byte_fallback: false}}",
        *_ENGLISH_BART,
    ),
    "text-to-text": (
        _ENGLISH,
        "task=text-to-text",
        "downstream.corpus=stories",
        _SHARED,
        *_ENGLISH_BART,
    ),
}
_PAIRS = "{kind: masked, input: segment-pair}"
_ERNIE_2 = """\
{kind: masked, units: [{word: 1}, {step: 3, word: 1, entity: 1}], entities: entities}, {kind: capitalisation},
 {kind: token-document, from_step: 2}, {kind: sentence-reordering, from_step: 2, weight: 2},
 {kind: sentence-distance, from_step: 3}, {kind: relevance, corpus: pair-classification},
 {kind: discourse-relation, corpus: pair-classification}"""
_READERS: Experiments = {
    **{
        task: (*_BERT, f"task={task}", f"downstream.corpus={task}", "systems=[{name: mean, initialiser: mean}]")
        for task in _TASKS
    },
    "zero-shot": (
        *_GPT2,
        *_CLASSES,
        'labels={zero_shot: {template: "{text} it was {label}"}}',
        "systems=[{name: old, vocabulary: upstream}]",
    ),
    "multitask": (
        *_BERT,
        "task=pair-classification",
        "downstream.corpus=pair-classification",
        "multitask={tasks: {passages: {task: span-extraction, corpus: span-extraction},"
        " words: {task: tagging, corpus: tagging},"
        " pairs: {task: pair-classification, corpus: pair-classification, labels: {head: {kind: san, steps: 3}}}}}",
        "multitask_training={epochs: 1, batch_size: 400, max_length: 64, precision: fp32}",
        "systems=[{name: alone, vocabulary: upstream, multitask: alone},"
        " {name: finetuned, initialiser: mean, multitask: finetuned, head: {kind: san}},"
        " {name: features, vocabulary: upstream, train: head,"
        " head: {kind: bilstm, width: 8, concatenated_layers: 1}}]",
    ),
    "bert-of-pairs": (
        *_one_stack("bert", *_pretrained_on("annotated", _PAIRS, "wordpiece")),
        *_CLASSES,
        "systems=[{name: old, vocabulary: upstream}, {name: patt, initialiser: patt}]",
    ),
    "continued-pretraining": (
        *_pretrained_on("annotated", _PAIRS, "wordpiece"),
        "upstream.checkpoint=bert",
        "upstream.continue_pretraining=true",
        *_AT_MOST_40,
        *_CLASSES,
    ),
    "roberta": (
        *_one_stack(
            "roberta",
            *_pretrained_on(
                "annotated",
                "{kind: masked, input: full-sentences, static_copies: 2}",
                "byte-level-bpe",
                size=330,
            ),
        ),
        *_CLASSES,
    ),
    "left-to-right": (
        *_one_stack(
            "bert",
            *_pretrained_on("annotated", "{kind: left-to-right, input: doc-sentences}", "wordpiece"),
        ),
        *_CLASSES,
        "labels={head: {kind: bilstm, width: 8, concatenated_layers: 1}}",
    ),
    "multitask-masked": (
        *_one_stack("bert", *_pretrained_on("english", "{kind: multitask-masked}", "wordpiece")),
        *_CLASSES,
    ),
    "gpt2-labels": (*_GPT2, *_CLASSES),
    "mbart-labels": (
        _ENGLISH,
        f"model={{family: mbart, {_TWO_STACKS}, max_positions: 128}}",
        "upstream={corpus: english, objectives: [{kind: denoising}], vocabulary: {size: 90, byte_fallback: false}}",
        "downstream.vocabulary.size=80",
        *_CLASSES,
    ),
    "xlnet": (
        *_one_stack(
            "xlnet",
            *_pretrained_on(
                "annotated",
                "{kind: permutation, input: segment-pair, memory_tokens: 8, next_sentence: true}",
                "unigram",
                size=65,
            ),
        ),
        *_CLASSES,
        "pretrain.label_smoothing=0",
        "finetune.layer_decay=0.8",
        _PATT,
    ),
    "ernie-1": (
        *_one_stack(
            "ernie",
            *_pretrained_on("talks", "{kind: masked}, {kind: dialogue}", "wordpiece"),
            shape=", task_embeddings: 2",
        ),
        *_CLASSES,
    ),
    "ernie-2": (
        *_one_stack(
            "ernie",
            *_pretrained_on("annotated", _ERNIE_2, "wordpiece"),
            shape=", task_embeddings: 7",
        ),
        *_CLASSES,
        "pretrain={epochs: null, max_steps: 12, batch_size: 300, max_length: 64, precision: fp32, schedule: noam,"
        " schedule_per_objective: true, warmup_steps: 3, learning_rate: 0.1}",
        _PATT,
    ),
    "ernie-3": (
        *_one_stack(
            "branched",
            *_pretrained_on(
                "annotated",
                "{kind: masked}, {kind: causal, packed: false}, {kind: knowledge-text}",
                "wordpiece",
            ),
            shape=", branch_layers: 1, branch_width: 8, branch_heads: 2, branch_ffn_dim: 8",
        ),
        *_CLASSES,
        _PATT,
    ),
    "knowledgeable": (
        *_one_stack(
            "knowledgeable",
            *_pretrained_on(
                "annotated",
                "{kind: masked-entities, input: segment-pair}",
                "wordpiece",
                more=", entities: {triples: graph.tsv, transe: {dimensions: 8, epochs: 2}}",
            ),
            shape=", knowledge_layers: 1, entity_width: 8, entity_heads: 2",
        ),
        "task=entity-typing",
        "downstream.corpus=entity-typing",
        _PATT,
    ),
}
EXPERIMENTS: Experiments = {
    **{name: (_FROM_ENGLISH, *changes) for name, changes in _TRANSLATIONS.items()},
    **_DIRECTIONS,
    **_WRITERS,
    **_READERS,
}
"""Each as changes to BASE."""

ALLOCATION = """\
name: allocation
texts:
  - texts:
      en: {files: {train: [scripts.en], dev: [three.en]}}
      chr: {files: {train: [scripts.chr]}}
      am: {files: {train: [scripts.am]}}
limits: {chr: 60}
totals: [460, 560]
curves: {sizes: [60, 90, 120, 180]}
baselines: {vocabularies: {other: multilingual}}
"""
ALLOCATIONS: Experiments = {"allocation": (), "bpe-allocation": ("curves.kind=bpe", "totals=[460]")}
"""Each as changes to ALLOCATION."""

STAND_INS: Experiments = {
    "continued": (
        "corpora.documents={records: {folder: FOLDER/annotated, fields: {en: {language: en}}, document: document}}",
        "corpora.labels={labelled: {folder: FOLDER/classification}}",
        "upstream.checkpoint=FOLDER/bert",
        *_AT_MOST_40,
    ),
    "digits": ("corpora.numbers={folder: FOLDER/upstream}", "corpora.digits={features: {folder: FOLDER/features}}"),
    "few-pairs-on-a-translator": ("upstream.checkpoint=FOLDER/fr-en", "back_translation.model=FOLDER/en-fr"),
    "knowledgeable": (
        "corpora.documentation.records.folder=FOLDER/annotated",
        "corpora.types.labelled.folder=FOLDER/entity-typing",
        "upstream.entities.triples=FOLDER/graph.tsv",
    ),
    "new-script": ("upstream.checkpoint=FOLDER/nine-languages",),
    "tales": ("corpora.tales={columns: {folder: FOLDER/stories, source: story, target: reply}}",),
    "transfer-back": ("back_translation.model=FOLDER/nine-languages",),
}
"""For configurations of the repository whose inputs are not shipped: changes that name inputs made here."""


def write_inputs(place: Path) -> None:
    """Every text and model that the experiments and STAND_INS read."""
    written(place, BASE)
    _write_texts(place)
    (place / "questions").mkdir()
    for split, size in _SIZES.items():
        _write_split(place, split, size)
        write_task(place / "questions", split, size)
    for task in _TASKS:
        write_files(task, place / task, _SIZES)
    followed = zip(names(), (*names()[1:], names()[0]), strict=True)
    _write(place / "graph.tsv", (f"{one}\tbefore\t{two}" for one, two in followed))
    _write_models(place)


def _write_texts(place: Path) -> None:
    """Plain text: more of the task's languages, three languages, and three scripts."""
    for name, lines in {
        "more.txt": german(12, 9),
        "read.txt": english(12, 8),
        "three.en": english(60, 3),
        "three.de": german(40, 4),
        "three.nl": german(30, 5),
    }.items():
        _write(place / name, lines)
    for code, script in zip(("en", "chr", "am"), SCRIPTS, strict=True):
        _write(place / f"scripts.{code}", text_in(script, None, 200))


def _write_split(place: Path, split: str, size: int) -> None:
    """A split of every corpus that has splits, apart from labels and questions."""
    seed = len(split) + size
    sources, targets = english(size, seed), german(size, seed)
    kinds = [number % 2 for number in range(size)]
    marked = [f"{('bad', 'good')[kind]} {line}" for kind, line in zip(kinds, english(size, seed + 1), strict=True)]
    _write(place / "french" / f"{split}.fr", english(size, seed + 2))
    _write(place / "french" / f"{split}.de", targets)
    _write(place / "new-script" / f"{split}.de", targets)
    _write(place / "new-script" / f"{split}.ukr", (line.lower().translate(_CYRILLIC) for line in sources))
    _write_records(
        place / "classes" / f"{split}.jsonl",
        ({"label": ("bad", "good")[kind], "text": text} for kind, text in zip(kinds, marked, strict=True)),
    )
    _write_records(
        place / "stories" / f"{split}.jsonl",
        ({"story": f"{kind} {line}", "reply": text} for kind, line, text in zip(kinds, sources, marked, strict=True)),
    )
    (place / "features").mkdir(exist_ok=True)
    features = np.random.default_rng(seed).normal(np.array(kinds)[:, None], 0.1, (size, 3)).astype(np.float32)
    save_file({"features": features}, place / "features" / f"{split}.safetensors")
    _write(place / "features" / f"{split}.en", marked)
    _write_records(
        place / "chapters" / f"{split}.jsonl",
        (
            {"document": f"{split}{at}", "en": sources[at : at + 3], "de": targets[at : at + 3]}
            for at in range(0, size, 3)
        ),
    )
    _write_records(
        place / "talks" / f"{split}.jsonl",
        ({"messages": _turns(line, answer)} for line, answer in zip(sources, marked, strict=True)),
    )
    if split != "test":
        stated = LINES[:50] if split == "train" else LINES[50:]
        _write_records(place / "annotated" / f"{split}.jsonl", (_annotated(at, line) for at, line in enumerate(stated)))


_CYRILLIC = {ord(latin): 0x430 + at for at, latin in enumerate("abcdefghijklmnopqrstuvwxyz")}


def _turns(question: str, answer: str) -> list[dict[str, str]]:
    said = zip(("user", "assistant") * 2, (question, answer, "And then?", question), strict=True)
    return [{"role": role, "content": text} for role, text in said]


def _annotated(number: int, line: str) -> dict[str, Any]:
    """A line of a document of five, with its entities and a fact that it states; every second one is capitalised."""
    text = line.capitalize() if number % 2 else line
    facts = [[text.split()[0], "before", text.split()[-1]]]
    return {"document": f"d{number // 5}", "en": text, "entities": spans(line), "facts": facts}


def _write_models(place: Path) -> None:
    """Checkpoints, a donor, and a vocabulary that was allocated to languages."""
    english_one, german_one, shape = english_tokenizer(), german_tokenizer(), {**SHAPE, "max_positions": 512}
    for name, encoder, decoder in (
        ("en-de", english_one, german_one),
        ("de-en", german_one, english_one),
        ("fr-en", german_one, english_one),
        ("en-fr", english_one, german_one),
    ):
        Bundle(build_marian(encoder, decoder, seed=1, **shape), encoder, decoder).save(place / name)
    sources, targets = english_tokenizer(100), german_tokenizer(160)
    wider = build_marian(sources, targets, seed=3, **{**SHAPE, "d_model": 24})
    Bundle(wider, sources, targets).save(place / "donor")
    for name, codes in (
        ("german-english", ("de_DE", "en_XX")),
        ("nine-languages", ("swh_XX", "jiv_XX", "usp_XX", "quc_XX")),
    ):
        lines = english() + german()
        one = learn(lines, kind="unigram", size=370, byte_fallback=True, mask=True, languages=codes)
        Bundle(build_mbart(one, seed=1, **shape), one, one).save(place / name)
    shared = learn(english() + german(), kind="unigram", size=110, mask=True, languages=("de_XX", "en_XX"))
    shared.save(place / "multilingual")
    (place / "bert").mkdir()
    publish_bert(place / "bert", pretraining=False)
    INSTRUCT["qwen2.5"](place / "instruct")


def take_network(made: Path, place: Path) -> None:
    """Put a trained network where NETWORK finds it. made: the artifact of the step that trained it."""
    shutil.copytree(made, place / NETWORK)


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _write_records(path: Path, records: Iterable[Mapping[str, Any] | Sequence[Any]]) -> None:
    _write(path, (json.dumps(record) for record in records))
