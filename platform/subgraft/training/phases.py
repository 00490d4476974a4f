"""Finetuning in two phases: new embeddings or a source encoder alone, then all parameters (Lewis et al. 2020, 3.4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from subgraft.config.settings_base import SideName
from subgraft.config.training import FinetuneSettings
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_of
from subgraft.modeling.sides import tables_of
from subgraft.training.progress import CurvePoint, Outcome
from subgraft.training.schedule import Data, data_plan, steps_of


def split_training(
    settings: FinetuneSettings, data: Data, seed: int, share: float
) -> tuple[FinetuneSettings, FinetuneSettings]:
    """The settings of the two phases, which together have as many steps as one training, and at least one each."""
    total = steps_of(data_plan(data, settings, seed), settings)
    first = min(max(1, round(share * total)), max(1, total - 1))
    return (
        settings.model_copy(update={"max_steps": first}),
        settings.model_copy(update={"max_steps": max(1, total - first)}),
    )


def first_phase_parameters(bundle: Bundle, sides: Sequence[SideName]) -> list[Tensor]:
    """The parameters that the first phase trains: the input and output embeddings of sides, and trained output biases.

    Without sides: a source encoder, and the parameters of the model that are trained with it.
    """
    if sides:
        return list(tables_of(bundle.model, sides).values())
    return list(family_of(bundle.model).first_step_parameters(bundle.model))


def train_only(bundle: Bundle, parameters: Iterable[Tensor]) -> None:
    """Freeze all parameters of the model except these."""
    trained_ids = {id(parameter) for parameter in parameters}
    for parameter in bundle.model.parameters():
        parameter.requires_grad_(id(parameter) in trained_ids)


@torch.no_grad()
def copy_parameters(trained: Iterable[Tensor], parameters: Iterable[Tensor]) -> None:
    """Copy parameters of one model into those of another of the same shape."""
    for source, parameter in zip(trained, parameters, strict=True):
        parameter.copy_(source)


def join_outcomes(first: Outcome, second: Outcome) -> Outcome:
    """Join two trainings. The second starts from the first's final weights, so its first point is dropped."""
    epochs = first.curve[-1].epoch if first.curve else 0.0

    def shift(point: CurvePoint) -> CurvePoint:
        return replace(
            point,
            step=point.step + first.steps,
            epoch=point.epoch + epochs,
            seconds=point.seconds + first.seconds,
        )

    curve = (*first.curve, *(shift(point) for point in second.curve if point.step > 0))
    best = first.steps + second.best_step if second.best_step else first.best_step
    steps, seconds = first.steps + second.steps, first.seconds + second.seconds
    return replace(second, curve=curve, steps=steps, best_step=best, seconds=seconds)
