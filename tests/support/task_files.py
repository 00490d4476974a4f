"""Files of tasks within one language, over sentences invented here."""

from __future__ import annotations

import json
import random
from pathlib import Path

from toys import english

SPLITS = {"train": 60, "dev": 3, "test": 4}


def write_everyday(place: Path, count: int = 120) -> None:
    """everyday.txt, with the quotes and dashes that an answer is marked with."""
    (place / "everyday.txt").write_text("".join(f'{line} - "{line}"\n' for line in english(count)))


def write_task(place: Path, split: str, count: int) -> None:
    """The same questions as SQuAD's JSON and as JSON lines: of three sentences, which word ends the second."""
    chooser = random.Random(split)
    paragraphs, lines = [], []
    for _ in range(count):
        three = chooser.sample(english(400, 3), 3)
        context, answer = " ".join(three), three[1].split()[-1].rstrip(".")
        title = " ".join(three[1].split()[:-1]) + " what?"
        start = len(three[0]) + 1 + three[1].rindex(answer)
        answers = [{"text": answer, "answer_start": start}, {"text": three[0], "answer_start": 0}]
        paragraphs.append({"context": context, "qas": [{"question": title, "answers": answers}]})
        lines.append(json.dumps({"text": context, "title": [title, "another"]}))
    (place / f"{split}.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    (place / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
