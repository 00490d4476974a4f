"""What a published model asks of generation: followed where it changes scores, and never in place of our search."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from finished import Build, gpt2_bundle, separate_bundle
from subgraft.config.evaluation import MeasurementSettings
from subgraft.pipeline.compute.continuation import continuer
from subgraft.pipeline.compute.outputs import translator
from toys import english

SOURCES = [" ".join(line.split()[:3]) for line in english(2, 5)]
# Each of them ended in an error of transformers', or in another output.
ASKED: list[dict[str, Any]] = [
    {"penalty_alpha": 0.6, "top_k": 4},
    {"num_beam_groups": 2, "diversity_penalty": 0.5, "num_beams": 4},
    {"dola_layers": "high"},
    {"force_words_ids": [[5]]},
    {"prompt_lookup_num_tokens": 3, "is_assistant": True},
    {"stop_strings": ["x"], "token_healing": True},
    {"num_return_sequences": 2, "num_beams": 4, "return_dict_in_generate": True, "output_scores": True},
    {"max_new_tokens": 1, "max_time": 0.0, "use_cache": False},
    {"cache_implementation": "static"},
    {"do_sample": True, "temperature": 0.1, "min_p": 0.9},
]


@pytest.mark.parametrize("build", [separate_bundle, gpt2_bundle])
@pytest.mark.parametrize("beam", [1, 2])
def test_another_search_is_not_followed(build: Build, beam: int) -> None:
    bundle, settings = build(), MeasurementSettings(beam=beam, max_length_ratio=0.1)
    write = (translator if "encoder" in bundle.tokenizers else continuer)(bundle, None, settings)
    expected, plain = write(SOURCES), bundle.model.generation_config
    assert all(expected)
    for asked in ASKED:
        bundle.model.generation_config = changed = deepcopy(plain)
        for name, value in asked.items():
            setattr(changed, name, value)
        assert write(SOURCES) == expected, asked
        assert bundle.model.generation_config is changed, "it is the model's own again"
    plain.no_repeat_ngram_size = 1
    bundle.model.generation_config = plain
    assert write(SOURCES) != expected
