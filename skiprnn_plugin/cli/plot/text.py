"""Samples of texts: used words highlighted, skipped ones grey, as a picture or as a page."""

from html import escape
from itertools import groupby
from typing import Iterator, List, NamedTuple, Tuple

import numpy as np

from ...runs.samples import Read, describe_sample, find_probability
from .figures import DPI, WIDTH, new_figure

# Inches: the width of a letter (of whole pixels, as letters are drawn), the margin around the picture, the height of a
# line, and the gap between texts
LETTER, MARGIN, LINE, GAP = 0.08, 0.12, 0.19, 0.16
COLUMNS = int((WIDTH - 2 * MARGIN) / LETTER)  # letters in a line
STYLES = {
    "used": {"color": "black", "bbox": {"facecolor": "#f9cfca", "edgecolor": "none", "pad": 1.2}},
    "skipped": {"color": "0.58"},
    "pad": {"color": "0.58", "fontstyle": "italic"},
}
PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>Words that the model used</title>
<style>
body {{ font: 16px/1.6 sans-serif; max-width: 50em; margin: 2em auto; padding: 0 1em; color: #8a8a8a; }}
h2 {{ font-size: 1em; color: black; margin: 2em 0 0.5em; }}
.used {{ background: #f9cfca; color: black; }}
.pad {{ font-style: italic; }}
</style>
<p>Words: <span class="used">used</span> <span class="skipped">skipped</span></p>
{texts}
</html>
"""


class Text(NamedTuple):
    """A text as a model read it.

    Attributes:
        title: the target, the prediction, and how many words were used.
        words: pairs of a word and its kind, a key of ``STYLES``; consecutive pad words are one pair.
    """

    title: str
    words: List[Tuple[str, str]]


def make(task, read: Read) -> List[Text]:
    """The words are those of the task's ``source_dictionary``; token ids are drawn as they are if it has none."""
    texts = []
    for index, length in enumerate(read.lengths):
        token_ids, used = read.x[index, :length], read.used[index, :length]
        title = describe_sample(task, read, index)
        if task.predicts == "classes" and not task.per_step:
            title += f" (probability {find_probability(read.prediction[index]):.3f})"
        title = ", ".join(filter(None, [title, f"used {used.sum()} of {length}"]))
        texts.append(Text(title, list(_words(task.source_dictionary, token_ids, used))))
    return texts


def _words(dictionary, token_ids: np.ndarray, used: np.ndarray) -> Iterator[Tuple[str, str]]:
    pairs = zip(token_ids.tolist(), used.tolist())
    if dictionary is None:
        yield from ((str(token_id), "used" if is_used else "skipped") for token_id, is_used in pairs)
        return
    for is_pad, group in groupby(pairs, key=lambda pair: pair[0] == dictionary.pad()):
        group = list(group)
        if is_pad:
            yield f"[{len(group)} pad words, {sum(is_used for _, is_used in group)} used]", "pad"
        else:
            yield from ((dictionary[token_id], "used" if is_used else "skipped") for token_id, is_used in group)


def as_html(texts: List[Text]) -> str:
    """A page that needs no other file."""
    parts = []
    for text in texts:
        spans = (
            f'<span class="{kind}">{escape(" ".join(word for word, _ in group))}</span>'
            for kind, group in groupby(text.words, key=lambda pair: pair[1])
        )
        parts.append(f"<h2>{escape(text.title)}</h2>\n<p>{' '.join(spans)}</p>")
    return PAGE.format(texts="\n".join(parts))


def draw(texts: List[Text]):
    """A matplotlib figure with the texts below each other."""
    wrapped = [wrap(text.words) for text in texts]
    height = 2 * MARGIN + sum((1 + len(lines)) * LINE + GAP for lines in wrapped)
    figure = new_figure(height)
    size = _font_size(figure)

    def write(text: str, column: int, top: float, **style):
        # Otherwise a dollar sign would begin a formula
        text = text.replace("$", r"\$")
        figure.text((MARGIN + column * LETTER) / WIDTH, 1 - top / height, text, va="baseline", **style)

    top = MARGIN + 0.7 * LINE
    for kind, column in (("used", COLUMNS - 13), ("skipped", COLUMNS - 7)):
        write(kind, column, top, family="monospace", fontsize=size, **STYLES[kind])
    for text, lines in zip(texts, wrapped):
        write(text.title, 0, top, fontsize=10)
        for line in lines:
            top += LINE
            for column, words, kind in line:
                write(words, column, top, family="monospace", fontsize=size, **STYLES[kind])
        top += LINE + GAP
    return figure


def wrap(words: List[Tuple[str, str]]) -> List[List[Tuple[int, str, str]]]:
    """Lines of at most ``COLUMNS`` letters: for each stretch of one kind its first column, its words and the kind."""
    lines, column = [[]], 0
    for word, kind in words:
        for start in range(0, len(word), COLUMNS):
            part = word[start : start + COLUMNS]
            if column + len(part) > COLUMNS:
                lines.append([])
                column = 0
            stretches = lines[-1]
            if stretches and stretches[-1][2] == kind:
                first, before, _ = stretches[-1]
                stretches[-1] = (first, f"{before} {part}", kind)
            else:
                stretches.append((column, part, kind))
            column += len(part) + 1
    return lines


def _font_size(figure) -> float:
    """The font size at which a letter is ``LETTER`` wide."""
    probe = figure.text(0, 0, 10 * "m", family="monospace", fontsize=100)
    width = probe.get_window_extent().width / 10 / DPI
    probe.remove()
    return 100 * LETTER / width
