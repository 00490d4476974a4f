"""Searches that take seconds: a model of nothing, on text invented here."""

from __future__ import annotations

from pathlib import Path

from small_experiments import tiny, written

CONFIG = tiny(
    cleaning="{}",
    upstream="{corpus: upstream, vocabulary: {size: 80, byte_fallback: false}}",
    downstream="{corpus: downstream, vocabulary: {size: 70, byte_fallback: false}}",
    model="{d_model: 16, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 24}",
    pretrain="{epochs: 1, batch_size: 400, precision: fp32}",
    generator_training="{max_steps: 4, batch_size: 200, precision: fp32}",
    finetune="{epochs: 3, batch_size: 1000, precision: fp32}",
    systems="""
      - {name: plain, vocabulary: upstream}
      - {name: searched, initialiser: patt, kd_weight: 0.5}
    """,
    evaluation="{beam: 1, speed_sentences: 4, speed_repeats: 1}",
    search="""
      system: searched
      space:
        initialiser: [avg, patt]
        kd_weight: {min: 0.0, max: 1.0}
        vocabulary_size: [70, 80]
      trials: 3
      sampler: random
      asha: null
    """,
)


def searchable(place: Path) -> Path:
    """The configuration and its corpora; every trial of it is done within seconds."""
    return written(place, CONFIG)
