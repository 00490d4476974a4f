"""What finetunings read of a domain's text, as steps: the text itself, or pairs that are made of it."""

from __future__ import annotations

from functools import cached_property

from subgraft import stages
from subgraft.config.objectives import ObjectiveSettings, TranslationSettings
from subgraft.config.synthetic import TextUse
from subgraft.experiment.beginnings import Beginnings
from subgraft.recipes.copied import CopiedRecipe
from subgraft.store.step import Step


class MadeText(Beginnings):
    """Builds these steps; systems that read the same text share them."""

    def learnt_by(self, use: TextUse | None) -> ObjectiveSettings | None:
        """How a finetuning learns the text that it reads so, if it reads any."""
        return None if use is None else TranslationSettings()

    def read_as(self, use: TextUse | None) -> dict[str, Step]:
        """The input of a finetuning that reads the text so."""
        return {} if use is None else {"synthetic": self._copied}

    @property
    def copies(self) -> dict[str, Step]:
        """The input `synthetic` of what learns a decoder's rows: target text with the sources that it lacks."""
        return {"synthetic": self._copied} if self.text_on("target") else {}

    @cached_property
    def _copied(self) -> Step[CopiedRecipe]:
        """The same lines for all systems and seeds."""
        experiment, text = self.experiment, self.text
        assert text is not None  # as `agreement` has it
        recipe = CopiedRecipe(
            languages=experiment.languages, copied=experiment.copied_text, seed=experiment.upstream.seed
        )
        return Step(stages.COPIED, "copied text", recipe, {"text": text})
