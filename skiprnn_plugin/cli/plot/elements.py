"""What pictures consist of: a figure of the style's width, its title and legend, and marks of used and skipped steps.

Call these functions within :meth:`Look.applied`.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

Color = Tuple[float, float, float]

# Names of metrics on axes; others are named like their logged keys
NAMES = {
    "update_fraction": "samples used (updates / steps)",
    "updates": "samples used (updates per sequence)",
    "mse": "mean squared error",
    "bleu": "BLEU",
    "wer": "word error rate",
    "ppl": "perplexity",
}
UP_TO_ONE = ("accuracy", "mAP", "update_fraction")  # metrics of which 1 is the most

SKIPPED: Color = (0.7, 0.7, 0.7)
FAINT: Color = (0.45, 0.45, 0.45)  # of skipped words, which are to be read
MARGIN = 0.04  # inches around a picture
TICK = 0.5  # inches that a tick's label may take on a horizontal axis


class Colors(NamedTuple):
    """The style's colours; ``others`` has those of the cycle without the first, which means "used"."""

    used: Color
    others: List[Color]

    def paler(self, share: float) -> Color:
        """The colour of used steps, mixed with white: 1 is the colour, 0 is white."""
        return mix(self.used, (1, 1, 1), share)


def mix(color: Color, other: Color, share: float) -> Color:
    return tuple(share * a + (1 - share) * b for a, b in zip(color, other))


def get_cycle() -> List[Color]:
    """The colours of the style, in their order."""
    from matplotlib import rcParams
    from matplotlib.colors import to_rgb

    return [to_rgb(color) for color in rcParams["axes.prop_cycle"].by_key().get("color", ["C0"])]


def get_colors() -> Colors:
    used, *others = get_cycle()
    return Colors(used, others or [(0.0, 0.0, 0.0)])


def get_width() -> float:
    """The width of a picture, in inches."""
    from matplotlib import rcParams

    return rcParams["figure.figsize"][0]


def new_figure(height: float):
    """An empty matplotlib figure of the style's width, without pyplot's global state.

    Titles and legends make it higher than ``height`` inches, so that the axes keep their height.
    """
    from matplotlib import rcParams
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    dpi = rcParams["figure.dpi"] if rcParams["savefig.dpi"] == "figure" else rcParams["savefig.dpi"]
    figure = Figure(figsize=(get_width(), height), dpi=dpi, layout="constrained")
    figure.get_layout_engine().set(w_pad=MARGIN, h_pad=MARGIN)
    FigureCanvasAgg(figure)
    return figure


def raise_figure(figure, inches: float) -> None:
    """Make a figure higher."""
    figure.set_figheight(figure.get_figheight() + inches)


def get_points(name: str) -> float:
    """The font size of a setting such as ``legend.fontsize``, in points."""
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties

    return FontProperties(size=rcParams[name]).get_size_in_points()


def measure(figure, text: str, size: float, **font: Any) -> float:
    """The width of a line of text, in inches, at a font size in points."""
    from matplotlib.font_manager import FontProperties

    renderer = figure.canvas.get_renderer()
    return renderer.get_text_width_height_descent(text, FontProperties(size=size, **font), False)[0] / figure.dpi


def fit(figure, text: str, width: float, size: float) -> str:
    """The text with its lines broken between words, so that they are at most as wide as given, in inches."""
    lines = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split(" "):
            longer = f"{line} {word}" if line else word
            if line and measure(figure, longer, size) > width:
                lines.append(line)
                longer = word
            line = longer
        lines.append(line)
    return "\n".join(lines)


def count_lines(text: str) -> int:
    return text.count("\n") + 1


def literal(text: str) -> str:
    """The text with its dollar signs escaped, which would otherwise begin a formula."""
    return text.replace("$", r"\$")


def add_title(figure, title: str) -> None:
    """Add a title above the axes, at the left; none if it is empty."""
    if title:
        size = get_points("figure.titlesize")
        text = fit(figure, title, get_width() - 2 * MARGIN, size)
        figure.suptitle(text, x=MARGIN / get_width(), ha="left", parse_math=False)
        raise_figure(figure, 1.25 * count_lines(text) * size / 72)


def make_caption(outcome: str, used: int, steps: int, separator: str = ", ") -> str:
    """The caption of a sequence: what was predicted, if that is not empty, and how many steps were used."""
    return separator.join(filter(None, [outcome, f"used {used:,} of {steps:,}"]))


def add_captions(
    figure, panels: Sequence, captions: Sequence[str], title: Optional[str], width: float, **options: Any
) -> None:
    """Add a caption above each panel, broken into lines of at most this width; none if the figure's title is empty, but
    all if it is None.

    The figure is made higher by what the captions need in all rows of panels.
    """
    size, rows = get_points("axes.titlesize"), {}
    for panel, caption in zip(panels, captions):
        text = "" if title == "" else fit(figure, caption, width, size)
        panel.set_title(text, parse_math=False, pad=3, **options)  # names may contain a $
        row = panel.get_subplotspec().rowspan.start
        rows[row] = max(rows.get(row, 0), count_lines(text) if text else 0)
    raise_figure(figure, sum(rows.values()) * 1.25 * size / 72)


def add_legend(figure, handles: Sequence, labels: Sequence[str], **options: Any) -> None:
    """Add a legend below the axes, where it hides nothing, in as many columns as the width has room for.

    Args:
        handles: artists of the axes, so that a key looks like what is drawn.
        labels: their names.
        options: of matplotlib's ``legend``.
    """
    from matplotlib import rcParams

    size, room = get_points("legend.fontsize"), get_width() - 2 * MARGIN
    key, gap = (
        sum(rcParams[f"legend.{name}"] for name in names) * size / 72
        for names in (("handlelength", "handletextpad"), ("columnspacing",))
    )
    texts = [literal(fit(figure, label, room - key - 0.1, size)) for label in labels]
    widest = key + max(measure(figure, line, size) for text in texts for line in text.split("\n"))
    columns = min(max(int((room + gap) / (widest + gap)), 1), len(labels))
    figure.legend(handles, texts, loc="outside lower left", ncols=columns, **options)
    texts += [""] * (-len(texts) % columns)
    rows = len(texts) // columns
    lines = sum(max(count_lines(text) for text in texts[row::rows]) for row in range(rows))
    raise_figure(figure, ((1.15 + rcParams["legend.labelspacing"] * rows / lines) * lines + 0.5) * size / 72)


def name_metric(metric: str) -> str:
    return NAMES.get(metric, metric.replace("_", " "))


def set_limits(axis, metric: str, values: np.ndarray) -> None:
    """Let an axis end at 1 if that is the most that the metric can be, and begin at 0 at least; write fractions of
    samples as percentages."""
    from matplotlib.ticker import FuncFormatter

    values = np.asarray(values)
    if metric in UP_TO_ONE and np.nanmin(values) >= 0 and np.nanmax(values) <= 1:
        low, _ = axis.get_view_interval()
        change = axis.axes.set_xlim if axis.axis_name == "x" else axis.axes.set_ylim
        change(max(low, 0), 1)
    if metric == "update_fraction":
        axis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:.0%}"))


def limit_ticks(axes, **options: Any) -> None:
    """As many ticks on the horizontal axis as their labels have room, with separators in large numbers."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    room = max(int((get_width() - 0.6) / TICK), 2)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=min(room, 9), steps=[1, 2, 2.5, 5, 10], **options))
    if options.get("integer"):
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def find_spans(used: np.ndarray) -> List[Tuple[float, float]]:
    """Where consecutive steps are True, bool [T]: the begin and the width of each span, on an axis on which step t
    takes t - 0.5 to t + 0.5."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], used, [False]]).astype(np.int8)))
    return [(begin - 0.5, end - begin) for begin, end in edges.reshape(-1, 2)]


def mark_used(steps: Optional[int] = None) -> Dict[str, Any]:
    """How the points of used steps look: filled."""
    return {"marker": "o", "linestyle": "none", "markersize": _point_size(steps), "color": get_colors().used}


def mark_skipped(steps: Optional[int] = None) -> Dict[str, Any]:
    """How the points of skipped steps look: pale, small and hollow."""
    return {
        "marker": "o",
        "linestyle": "none",
        "markersize": 0.75 * _point_size(steps),
        "markerfacecolor": "white",
        "markeredgecolor": SKIPPED,
        "markeredgewidth": 0.8,
    }


def _point_size(steps: Optional[int]) -> float:
    """The size of a point, in points, at which many of them do not hide each other."""
    from matplotlib import rcParams

    most = rcParams["lines.markersize"]
    return most if steps is None else float(np.clip(72 * (get_width() - 0.6) / steps, most / 2, most))
