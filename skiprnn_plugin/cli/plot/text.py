"""Samples of texts: used words highlighted, skipped ones grey, as a picture or as a page."""

from html import escape
from itertools import groupby
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from ...runs.samples import Read, describe_sample, find_probability
from .elements import (
    FAINT,
    MARGIN,
    count_lines,
    fit,
    get_colors,
    get_points,
    get_width,
    literal,
    make_caption,
    measure,
    new_figure,
)

KINDS = ("used", "skipped", "pad")
PALE = 0.3  # share of the colour "used" behind used words
PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>Words that the model used</title>
<style>
body {{ font: 16px/1.6 sans-serif; max-width: 50em; margin: 2em auto; padding: 0 1em; color: #737373; }}
h1 {{ font-size: 1.2em; color: black; }}
h2 {{ font-size: 1em; color: black; margin: 2em 0 0.5em; }}
.used {{ background: #b3d4e8; color: black; }}
.pad {{ font-style: italic; }}
</style>
{title}<p>Words: <span class="used">used</span> <span class="skipped">skipped</span></p>
{texts}
</html>
"""


class Text(NamedTuple):
    """A text as a model read it.

    Attributes:
        caption: the target, the prediction, and how many words were used.
        words: pairs of a word and its kind, one of ``KINDS``; consecutive pad words are one pair.
    """

    caption: str
    words: List[Tuple[str, str]]


def make(task, read: Read) -> List[Text]:
    """The words are those of the task's ``source_dictionary``; token ids are drawn as they are if it has none."""
    texts = []
    for index, length in enumerate(read.lengths):
        token_ids, used = read.x[index, :length], read.used[index, :length]
        caption = describe_sample(task, read, index)
        if task.predicts == "classes" and not task.per_step:
            caption += f" (probability {find_probability(read.prediction[index]):.3f})"
        caption = make_caption(caption, used.sum(), length)
        texts.append(Text(caption, list(_words(task.source_dictionary, token_ids, used))))
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


def as_html(texts: List[Text], title: Optional[str] = None) -> str:
    """A page that needs no other file; without any titles if ``title`` is empty."""
    parts = []
    for text in texts:
        spans = (
            f'<span class="{kind}">{escape(" ".join(word for word, _ in group))}</span>'
            for kind, group in groupby(text.words, key=lambda pair: pair[1])
        )
        caption = "" if title == "" else f"<h2>{escape(text.caption)}</h2>\n"
        parts.append(f"{caption}<p>{' '.join(spans)}</p>")
    return PAGE.format(title=f"<h1>{escape(title)}</h1>\n" if title else "", texts="\n".join(parts))


class _Grid(NamedTuple):
    """The places of letters: widths and heights in inches, and the font size in points.

    Attributes:
        letter: the width of a letter, whole pixels, as letters are drawn.
        line: the height of a line.
        size: the font size at which letters are that wide.
        columns: letters in a line.
    """

    letter: float
    line: float
    size: float
    columns: int


def draw(texts: List[Text], title: Optional[str] = None):
    """A matplotlib figure with the texts below each other; without any titles if ``title`` is empty."""
    figure = new_figure(1)
    figure.set_layout_engine(None)
    grid, styles, size = _make_grid(figure), _style(), get_points("axes.titlesize")
    room = get_width() - 2 * MARGIN
    headings = [fit(figure, text.caption, room, size) if title != "" else "" for text in texts]
    above = fit(figure, title, room, get_points("figure.titlesize")) if title else ""
    wrapped = [wrap(text.words, grid.columns) for text in texts]
    lines = sum(len(text) + (count_lines(heading) if heading else 0) for text, heading in zip(wrapped, headings))
    lines += (count_lines(above) + 0.4) * bool(above) + 1.4 + 0.7 * (len(texts) - 1)
    height = 2 * MARGIN + lines * grid.line
    figure.set_figheight(height)

    def write(text: str, column: int, top: float, **style):
        place = (MARGIN + column * grid.letter) / get_width(), 1 - top / height
        figure.text(*place, literal(text), va="baseline", **style)

    top = MARGIN + 0.75 * grid.line
    for line in filter(None, above.split("\n")):
        write(line, 0, top, fontsize=get_points("figure.titlesize"))
        top += grid.line
    top += 0.4 * grid.line * bool(above)
    for heading, text in zip(headings, wrapped):
        for line in filter(None, heading.split("\n")):
            write(line, 0, top, fontsize=size)
            top += grid.line
        for line in text:
            for column, words, kind in line:
                write(words, column, top, family="monospace", fontsize=grid.size, **styles[kind])
            top += grid.line
        top += 0.7 * grid.line
    for kind, column in (("used", 0), ("skipped", 6)):
        write(kind, column, top - 0.2 * grid.line, family="monospace", fontsize=grid.size, **styles[kind])
    return figure


def _style() -> Dict[str, Dict[str, Any]]:
    """How words are written, by their kind."""
    box = {"facecolor": get_colors().paler(PALE), "edgecolor": "none", "pad": 0.8}
    return {
        "used": {"color": "black", "bbox": box},
        "skipped": {"color": FAINT},
        "pad": {"color": FAINT, "fontstyle": "italic"},
    }


def _make_grid(figure) -> _Grid:
    size = get_points("axes.titlesize")
    width = measure(figure, 100 * "m", 100, family="monospace") / 10_000  # inches of a letter, for a point of font size
    letter = round(size * width * figure.dpi) / figure.dpi
    return _Grid(letter, 1.55 * size / 72, letter / width, int((get_width() - 2 * MARGIN) / letter))


def wrap(words: List[Tuple[str, str]], columns: int) -> List[List[Tuple[int, str, str]]]:
    """Lines of at most ``columns`` letters: for each stretch of one kind its first column, its words and the kind."""
    lines, column = [[]], 0
    for word, kind in words:
        for start in range(0, len(word), columns):
            part = word[start : start + columns]
            if column + len(part) > columns:
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
