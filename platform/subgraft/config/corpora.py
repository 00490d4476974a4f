"""The languages of a corpus, and the rules by which its text is retained; `data.sources` has where text comes from."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from subgraft.config.settings_base import Count, Settings

# The code of a language that is not known, of ISO 639-2.
UNDETERMINED = "und"


class Languages(Settings):
    """The languages that a task reads and writes, such as `en` and `de`; the same one twice means text of one language.

    source: the code of the language that is read.
    target: the code of the language that is written.
    """

    source: str
    target: str

    @property
    def name(self) -> str:
        """The languages in short, as in `en-de`."""
        return f"{self.source}-{self.target}"

    @property
    def reversed(self) -> Languages:
        """The languages of the reverse direction."""
        return Languages(source=self.target, target=self.source)


class Cleaning(Settings):
    """Rules a training pair must pass; dev and test are only stripped, never filtered. null disables a rule.

    squeeze: characters whose repetitions are reduced to one, before all rules; ERNIE 3 has " \\t!?" (Sun et al., 2021,
    section 3.3.1). Labelled examples, conversations and texts with spans stay as they are.
    min_characters, max_characters: bounds on the length of either side.
    min_words: the minimum number of words of either side, between spaces (ERNIE 3 has 10; Sun et al., 2021, section
        3.3.1).
    max_ratio: the largest ratio of the longer side's length to the shorter's.
    drop_identical: whether to drop pairs whose sides are the same text.
    deduplicate: whether to keep only the first occurrence of a pair.
    drop_held_out: whether to drop pairs with a side that occurs in dev or test, ignoring case, Unicode form, white
    space, quotation marks and final punctuation.
    drop_repeats: for documents: drops a run of at most this many segments (99 in ERNIE 3) that repeats the run directly
    before it.
    deduplicate_documents: for documents: drops a document if its longest segments, as many as this number (3 in ERNIE
    3), equal those of an earlier document.
    """

    squeeze: Annotated[str, Field(min_length=1)] | None = None
    min_characters: Count = 1
    min_words: Count | None = None
    max_characters: Count | None = 1000
    max_ratio: Annotated[float, Field(ge=1.0)] | None = 5.0
    drop_identical: bool = False
    deduplicate: bool = True
    drop_held_out: bool = True
    drop_repeats: Annotated[int, Field(ge=1, le=1000)] | None = None
    deduplicate_documents: Count | None = None

    @property
    def of_documents(self) -> bool:
        """Whether there is a rule for whole documents."""
        return self.drop_repeats is not None or self.deduplicate_documents is not None
