"""Converts a user's input, a JSON value or a line of text, to the input that the task of a finetuned model reads.

Fields have the names of the columns of labelled files, so that files of examples can be used unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from subgraft.base.errors import UserError
from subgraft.data.text.cleaning import in_one_line
from subgraft.data.text.fields import is_one_word, span_bounds

# The field of the text in which the positions of answers are counted.
PASSAGE = "passage"


@dataclass(frozen=True)
class InputForm:
    """The form of a task's inputs.

    Attributes:
        texts: The fields of the texts, in the order of the columns of a line.
        optional: Whether the second text may be missing.
        several: The field of a list of texts, which are the remaining columns of a line; empty if there is no list.
        spans: The fields of spans [start, end) of the text, in characters.
        whole_text: Whether a text without spans is also an input.
        words: Whether the input is a list of words, or a text with spaces between words.
    """

    texts: tuple[str, ...]
    optional: bool = False
    several: str = ""
    spans: tuple[str, ...] = ()
    whole_text: bool = False
    words: bool = False

    def __str__(self) -> str:
        fields = [*self.texts, *([self.several] if self.several else []), *self.spans]
        return ", ".join(fields)

    @property
    def columns(self) -> bool:
        """Whether a line has several columns."""
        return len(self.texts) > 1 or bool(self.several)

    def of_line(self, line: str, where: str) -> Any:
        """The input in a line with tabs between columns. Raises UserError for a line of another form."""
        if self.spans and not self.whole_text:
            hint = f"Give JSON lines with the fields {self}: --format jsonl."
            raise UserError("a line of text does not mark its entities", where=where, hint=hint)
        return self.of_value(line.split("\t") if self.columns else line, where)

    def of_value(self, value: Any, where: str) -> Any:
        """The input in a JSON object, in a list of its values, or in one text. Raises UserError for other values."""
        if isinstance(value, Mapping):
            texts = [value[name] for name in self._fields_of(value, where)]
            spans = [span_bounds(value[name], name, where) for name in self.spans if name in value]
        else:
            texts, spans = self._cells(value, where), []
        if self.words:
            return _words(texts[0], where)
        remaining = texts[len(self.texts) :]
        result = [_text(text, name, where) for name, text in zip(self.texts, texts, strict=False)]
        if not self.spans:  # models are trained on texts without surrounding white space
            result = [
                text if name == "passage" else text.strip() for name, text in zip(self.texts, result, strict=False)
            ]
        if self.several:
            several = remaining[0] if len(remaining) == 1 and isinstance(remaining[0], Sequence) else remaining
            several = [several] if isinstance(several, str) else several
            if not several:
                raise UserError(f"no {self.several}", where=where)
            return result[0], [_text(text, self.several, where).strip() for text in several]
        if self.spans:
            for span in spans:
                if not 0 <= span[0] < span[1] <= len(result[0]):
                    raise UserError(f"no characters {list(span)} in a text of {len(result[0]):,}", where=where)
            return (result[0], *spans) if spans else (result[0], None)
        return result[0] if len(result) == 1 else tuple(result)

    def _fields_of(self, value: Mapping[str, Any], where: str) -> list[str]:
        """The text fields of an object. Raises UserError if a required field is missing."""
        if self.words and "words" in value:
            return ["words"]
        fields = [*self.texts, *([self.several] if self.several else [])]
        required = fields[:1] if self.optional else fields
        required += [] if self.whole_text else self.spans
        for name in required:
            if name not in value:
                raise UserError(f"no field '{name}'", where=where, hint=f"The model reads {self}.")
        return [name for name in fields if name in value]

    def _cells(self, value: Any, where: str) -> list[Any]:
        if self.words:
            return [value]
        if self.spans and not (self.whole_text and isinstance(value, str)):
            raise UserError(f"expected an object with {self}, found {value!r:.40}", where=where)
        cells = [value] if isinstance(value, str) else value
        if not isinstance(cells, Sequence) or isinstance(cells, bytes):
            raise UserError(f"expected {self}, found {value!r:.40}", where=where)
        min_cells = 1 if self.optional else len(self.texts) + bool(self.several)
        if len(cells) < min_cells or (len(cells) > len(self.texts) and not self.several):
            count = "one text" if len(cells) == 1 else f"{len(cells)} texts"
            hint = "Separate the columns of a line by tabs." if self.columns else ""
            raise UserError(f"expected {self}, found {count}", where=where, hint=hint)
        return list(cells)


# One text, a pair of texts, and the form of models that may read either.
ONE_TEXT, PAIR, TEXT_OR_PAIR = (
    InputForm(("text",)),
    InputForm(("text", "text_pair")),
    InputForm(("text", "text_pair"), optional=True),
)


def _text(value: Any, name: str, where: str) -> str:
    """A field as one line. The positions of its characters do not change, because spans refer to them."""
    if not isinstance(value, str):
        raise UserError(f"the field '{name}' contains no text", where=where)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UserError("half a character", where=where) from None
    return in_one_line(value)


def _words(value: Any, where: str) -> str:
    words = value.split() if isinstance(value, str) else value
    if not isinstance(words, Sequence) or isinstance(words, bytes):
        raise UserError("expected words, or a text", where=where)
    texts = [_text(word, "words", where) for word in words]
    for word in texts:
        if not is_one_word(word):
            raise UserError(f"'{word:.40}' is not one word", where=where)
    return " ".join(texts)
