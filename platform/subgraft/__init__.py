"""Subgraft: fit pretrained generation models with the vocabulary their task needs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from subgraft.base.errors import OperationalError, UserError
    from subgraft.interfaces.api.advice import VocabularyAdvice, advise
    from subgraft.interfaces.api.comparison import VocabularyComparison, compare_vocabularies
    from subgraft.interfaces.api.experiments import run, train_generator
    from subgraft.interfaces.api.exports import Exported, export
    from subgraft.interfaces.api.finetune import Finetuned, finetune
    from subgraft.interfaces.api.fit import Fitted, fit
    from subgraft.interfaces.api.graft import Grafted, graft
    from subgraft.interfaces.api.model import Model, load, translate
    from subgraft.interfaces.api.predict import Predicted, predict
    from subgraft.interfaces.api.progress import StepProgress
    from subgraft.interfaces.api.scores import Scores, evaluate
    from subgraft.interfaces.api.transfers import transfer
    from subgraft.interfaces.api.vocabularies import extend, learn_vocabulary, trim

__version__ = "0.1.0"
__all__ = [
    "Exported",
    "Finetuned",
    "Fitted",
    "Grafted",
    "Model",
    "OperationalError",
    "Predicted",
    "Scores",
    "StepProgress",
    "UserError",
    "VocabularyAdvice",
    "VocabularyComparison",
    "advise",
    "compare_vocabularies",
    "evaluate",
    "export",
    "extend",
    "finetune",
    "fit",
    "graft",
    "learn_vocabulary",
    "load",
    "predict",
    "run",
    "train_generator",
    "transfer",
    "translate",
    "trim",
]
_HOMES = {
    "Exported": "interfaces.api.exports",
    "Finetuned": "interfaces.api.finetune",
    "Fitted": "interfaces.api.fit",
    "Grafted": "interfaces.api.graft",
    "Model": "interfaces.api.model",
    "OperationalError": "base.errors",
    "Predicted": "interfaces.api.predict",
    "Scores": "interfaces.api.scores",
    "StepProgress": "interfaces.api.progress",
    "UserError": "base.errors",
    "VocabularyAdvice": "interfaces.api.advice",
    "VocabularyComparison": "interfaces.api.comparison",
    "advise": "interfaces.api.advice",
    "compare_vocabularies": "interfaces.api.comparison",
    "evaluate": "interfaces.api.scores",
    "export": "interfaces.api.exports",
    "extend": "interfaces.api.vocabularies",
    "finetune": "interfaces.api.finetune",
    "fit": "interfaces.api.fit",
    "graft": "interfaces.api.graft",
    "learn_vocabulary": "interfaces.api.vocabularies",
    "load": "interfaces.api.model",
    "predict": "interfaces.api.predict",
    "run": "interfaces.api.experiments",
    "train_generator": "interfaces.api.experiments",
    "transfer": "interfaces.api.transfers",
    "translate": "interfaces.api.model",
    "trim": "interfaces.api.vocabularies",
}

if not TYPE_CHECKING:  # to which any name would be there

    def __getattr__(name: str) -> Any:
        """What is offered is imported when it is asked for: torch alone takes seconds (PEP 562)."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
