"""How every picture of ``skiprnn-plot`` looks: size, fonts, title, style, key, at the widths of a paper's columns."""

import itertools
import re
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread
from matplotlib.text import Text

from skiprnn_plugin.cli.plot import (
    FIGURES,
    classes,
    curves,
    features,
    figures,
    frames,
    images,
    main,
    panels,
    skips,
    text,
    tradeoff,
)
from skiprnn_plugin.cli.plot.elements import find_spans, fit, get_points, measure, new_figure
from skiprnn_plugin.cli.plot.figures import Look, write_picture
from skiprnn_plugin.cli.train import main as train
from skiprnn_plugin.data.features import FolderFacts
from skiprnn_plugin.runs.classes import ACCURACY, Classes
from skiprnn_plugin.runs.curves import Curve
from skiprnn_plugin.runs.frames import Sheet
from skiprnn_plugin.runs.series import Series
from skiprnn_plugin.runs.skips import Skips
from skiprnn_plugin.runs.tradeoff import Point, Tradeoff

WIDTHS = (3.3, 6.9)
TITLE = "Smart watch, people that training has not seen, split test; mean and range of 4 runs"
BLUE = "#0072b2"  # what is used

rng = np.random.default_rng(0)
steps = np.arange(120)
used = rng.random((2, 120)) < 0.3
used[:, 40:60] = True
outcome = "label lateral raise, predicted external rotation"
wave, marked = np.sin(steps / 9), rng.random((2, 120)) < 0.02
POINTS = panels.Samples(steps, "time (ms)", np.stack([wave, wave]), "amplitude", used, [outcome] * 2, marked)
CURVES = features.Features(
    [rng.normal(size=(120, 6)), rng.normal(size=(90, 6))],
    [f"channel {number}" for number in range(1, 7)],
    [used[0], used[1, :90]],
    [f"{outcome}, used 51 of 120"] * 2,
    "value",
)
pixels = rng.random((7, 8, 8))
IMAGES = images.Images(pixels, pixels < 0.5, ["label 7, predicted 7\nused 501 of 784"] * 7)
words = [(f"word{number % 13}", "used" if number % 3 == 0 else "skipped") for number in range(90)]
TEXTS = [text.Text("label pos, predicted pos (probability 0.993), used 30 of 90", words)] * 2
SHEET = Sheet(np.zeros((30, 54, 96, 3), dtype=np.uint8), np.arange(30) % 4 == 0, np.arange(30) / 10, "")
SKIPS = [Skips(f"Skip {cell}, λ=1e-4", np.array([9_000, 300, 20, 1, 0, 2]), 100, 1) for cell in ("GRU", "LSTM")]
CLASSES = Classes(
    ACCURACY, ["abduction", "external rotation"], np.array([0.9, 0.25]), np.array([400, 186]), 3, 1_000, 0.6
)
TRADEOFF = Tradeoff(
    "",
    "update_fraction",
    "accuracy",
    0.9,
    [
        Series("Skip GRU", 0, "learned", [Point("λ=1e-3", [0.1, 0.12], [0.91, 0.93], (0.1, 0.02, 0.9)),
                                          Point("λ=0", [0.9, 1.0], [1.0, 1.0], (0.95, 0.0, 0.9))]),
        Series("GRU, every sample", 0, "full", [Point("", [1.0], [0.99], (1.0, 0.0, 0.9))]),
        Series("Skip LSTM", 1, "learned", [Point("λ=1e-3", [0.3], [0.95], None)]),
    ],
)  # fmt: skip
RUNS = [
    Curve(label, "learned", np.array([100, 20_000, 120_000]), np.array([[0.5, 0.9, 1.0], [0.4, 0.95, 1.0]]))
    for label in ("Skip GRU, λ=1e-4", "Skip LSTM, λ=1e-4")
]

PICTURES = {
    "points": lambda title: panels.draw(POINTS, title),
    "curves of features": lambda title: features.draw(CURVES, title),
    "images": lambda title: images.draw(IMAGES, title),
    "texts": lambda title: text.draw(TEXTS, title),
    "frames": lambda title: frames.draw(SHEET, title),
    "skips": lambda title: skips.draw(SKIPS, title),
    "classes": lambda title: classes.draw(CLASSES, title),
    "tradeoff": lambda title: tradeoff.draw(TRADEOFF, title),
    "curves": lambda title: curves.draw({"accuracy": RUNS, "update_fraction": RUNS}, "updates", title),
}
every_picture = pytest.mark.parametrize("name", PICTURES)
# All pictures are written in the same way; the quick tests take two of them, which differ most
in_every_format = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in ("points", "tradeoff") else pytest.mark.thorough) for name in PICTURES],
)
both_widths = pytest.mark.parametrize("width", [WIDTHS[0], pytest.param(WIDTHS[1], marks=pytest.mark.thorough)])


def write(name, path, title=TITLE, **look):
    """Write a picture; returns its matplotlib figure."""
    drawn = []

    def draw():
        drawn.append(PICTURES[name](title))
        return drawn[0]

    write_picture(draw, path, Look(**look))
    return drawn[0]


def find_labels(axis):
    """The labels of the ticks that are drawn."""
    low, high = sorted(axis.get_view_interval())
    ticks = zip(axis.get_majorticklocs(), axis.get_majorticklabels())
    return [label for place, label in ticks if label.get_text() and low <= place <= high]


@both_widths
@every_picture
def test_fits_the_width(tmp_path, name, width):
    """Also the ticks' labels do not overlap, and no letter is smaller than 5 points or larger than 9."""
    figure = write(name, tmp_path / "x.png", width=width)
    assert imread(tmp_path / "x.png").shape[1] == round(200 * width)
    assert len(figure.legends) == (name != "texts")  # which has its legend among the texts
    with Look(width=width).applied():
        figure.draw_without_rendering()
        shown = [[axes.xaxis, axes.yaxis] for axes in figure.axes if axes.axison]
        axes_labels = [find_labels(axis) for axis in itertools.chain(*shown)]
        others = set(figure.findobj(Text))
        for axes in figure.axes:
            others -= {*axes.get_xticklabels(which="both"), *axes.get_yticklabels(which="both")}
        ticks = [*itertools.chain(*axes_labels)]
        written = [found for found in (*ticks, *others) if found.get_text() and found.get_visible()]
        page = figure.bbox.padded(1)
        for box in (artist.get_window_extent() for artist in (*figure.legends, *written)):
            assert page.contains(box.x0, box.y0) and page.contains(box.x1, box.y1)
        assert all(5 <= found.get_fontsize() <= 9 for found in written)
        for axis_labels in axes_labels:
            boxes = [label.get_window_extent() for label in axis_labels]
            assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
        for axes in figure.axes:
            assert min(axes.bbox.size) > 20  # pixels; they have not collapsed
            assert all(legend.get_window_extent().y1 <= axes.get_tightbbox().y0 + 1 for legend in figure.legends)


@in_every_format
def test_pdf(tmp_path, name):
    """Its fonts are embedded as TrueType, which publishers take, and it has the width to a thousandth of an inch."""
    write(name, tmp_path / "x.pdf", width=3.3)
    content = (tmp_path / "x.pdf").read_bytes()
    assert b"/FontFile2" in content and b"/Type3" not in content and b"/Subtype /Type1" not in content
    (box,) = re.findall(rb"/MediaBox \[ 0 0 (\S+) \S+ \]", content)
    assert float(box) / 72 == pytest.approx(3.3, abs=1e-3)


@in_every_format
def test_svg(tmp_path, name):
    """Its text is text."""
    write(name, tmp_path / "x.svg", width=6.9)
    root = ElementTree.parse(tmp_path / "x.svg").getroot()
    written = " ".join("".join(found.itertext()) for found in root.iter("{http://www.w3.org/2000/svg}text"))
    assert all(word in written for word in TITLE.split())
    assert float(root.get("width").removesuffix("pt")) == pytest.approx(6.9 * 72, abs=0.01)


@in_every_format
def test_a_title_can_be_left_out(look, name):
    figure = PICTURES[name]("")
    titles = [figure.get_suptitle(), *(axes.get_title(loc) for axes in figure.axes for loc in ("left", "center"))]
    assert not any(titles) and len(figure.texts) < len(PICTURES[name](TITLE).texts)


def style(line):
    return (
        line.get_marker(),
        line.get_markersize(),
        to_rgb(line.get_markerfacecolor()) if line.get_markerfacecolor() != "none" else None,
        to_rgb(line.get_markeredgecolor()),
        line.get_linestyle(),
        to_rgb(line.get_color()),
    )


@pytest.mark.parametrize("name", ["points", "curves of features", "tradeoff", "curves"])
def test_the_keys_marks_are_those_of_the_plot(look, name):
    figure = PICTURES[name](TITLE)
    (legend,) = figure.legends
    plotted = {style(line) for axes in figure.axes for line in axes.lines}
    keys = legend.findobj(lambda artist: type(artist).__name__ == "Line2D")
    assert len(keys) >= 2 and {style(key) for key in keys} <= plotted
    if name == "curves of features":
        drawn = {tuple(patches.get_facecolor()[0]) for patches in figure.axes[0].collections}
        assert {patch.get_facecolor() for patch in legend.get_patches()} <= drawn


@pytest.mark.parametrize("name", ["points", "curves of features", "images", "frames"])
def test_used_has_one_colour_everywhere(look, name):
    """And it is the first of the style's; nothing is red."""
    figure = PICTURES[name](TITLE)
    (legend,) = figure.legends
    key = dict(zip([found.get_text() for found in legend.get_texts()], legend.legend_handles))["used"]
    if name == "points":
        shown = key.get_markerfacecolor()
    else:
        shown = key.get_edgecolor() if name == "frames" else key.get_facecolor()
    red, green, blue = to_rgb(shown)
    expected = to_rgb(BLUE)
    if name == "images":  # darker, as ink
        assert (red, green, blue) == pytest.approx(tuple(0.8 * part for part in expected))
    else:
        assert (red, green, blue) == pytest.approx(expected)


def test_axes_of_accuracy_end_at_one(look):
    (axes,) = PICTURES["tradeoff"](TITLE).axes
    assert axes.get_ylim()[1] == axes.get_xlim()[1] == 1 and 0 <= axes.get_xlim()[0] < 0.1
    assert not any(line.get_clip_on() for line in axes.containers[0].lines[:1])  # a point at 1 is drawn whole
    assert PICTURES["curves"](TITLE).axes[0].get_ylim()[1] == 1
    assert PICTURES["classes"](TITLE).axes[0].get_xlim() == (0, 1)
    percent = tradeoff.draw(TRADEOFF._replace(series=[Series("", 0, "full", [Point("", [1.0], [97.0], None)])]), "")
    assert percent.axes[0].get_ylim()[1] > 97


def test_channels_are_told_apart_and_named(look):
    """Also where there are more of them than colours."""
    figure = PICTURES["curves of features"]("")
    shown = [found.get_text() for found in figure.legends[0].get_texts()]
    assert shown == ["used", "skipped", *CURVES.names]
    curves = [np.ones((9, 8))]
    many = features.draw(features.Features(curves, list("abcdefgh"), [np.ones(9, bool)], [""], "value"))
    looks = [(to_rgb(line.get_color()), str(line.get_linestyle())) for line in many.axes[0].lines]
    assert len(set(looks)) == 8 and to_rgb(BLUE) not in [color for color, _ in looks]


def test_names_are_kept_in_checkpoints_and_older_ones_lack_them():
    facts = FolderFacts(["a", "b"], 2, feature_names=["x", "y"])
    state = facts.as_state()
    assert FolderFacts.from_state(state) == facts
    del state["feature_names"]
    assert FolderFacts.from_state(state).feature_names is None


def test_the_longest_of_the_sequences_is_drawn_whole(look):
    """The first, here."""
    low, high = PICTURES["curves of features"]("").axes[1].get_xlim()
    assert low < -0.5 and 119.5 < high < 125


def test_names_of_a_tables_columns(prints, figures, tmp_path):
    lines = [f"s{n},{n % 2},{n},{step},-1" for n in range(20) for step in range(3)]
    (tmp_path / "own.csv").write_text("\n".join(["sequence,label,heart rate,$x$,z", *lines]))
    prints(train, tmp_path / "own.csv", "--save-dir", tmp_path / "run", "--max-updates", 1, "--hidden-size", 4)
    shown = [found.get_text() for found in figures[0].legends[0].get_texts()]
    assert shown == ["used", "skipped", "heart rate", r"\$x\$", "z"]


@pytest.mark.parametrize(
    "steps, spans",
    [("", []), ("0", []), ("1", [(-0.5, 1)]), ("0110", [(0.5, 2)]), ("1101", [(-0.5, 2), (2.5, 1)])],
)
def test_spans(steps, spans):
    assert find_spans(np.array([step == "1" for step in steps], dtype=bool)) == spans


def test_text_is_broken_between_words(look):
    figure, size = new_figure(1), get_points("figure.titlesize")
    lines = fit(figure, TITLE + "\nx", 2, size).split("\n")
    assert " ".join(lines) == TITLE + " x" and len(lines) > 2
    assert all(measure(figure, line, size) <= 2 for line in lines)


OWN = """
axes.prop_cycle: cycler("color", ["111111", "222222"])
font.size: 6
savefig.dpi: 100
savefig.bbox: tight
figure.figsize: 5, 1
"""


@pytest.fixture
def draw_samples(prints, tiny, tmp_path, figures):
    """``skiprnn-plot samples`` with some options; returns the figure and the width of the picture in pixels."""

    def call(*options):
        path = tmp_path / "x.png"
        prints(main, "samples", tiny["seed1"].save_dir, "--num-sequences", 1, "--output", path, *options)
        return figures[-1], imread(path).shape[1]

    return call


def test_a_style_of_the_users(draw_samples, tmp_path):
    """Its settings win over the package's, and the options over it."""
    (tmp_path / "own.mplstyle").write_text(OWN)
    figure, width = draw_samples("--style", tmp_path / "own.mplstyle")
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    assert to_rgb(lines["used"].get_color()) == to_rgb("#111111") and width == 500
    _, width = draw_samples("--style", tmp_path / "own.mplstyle", "--width", 3.3, "--dpi", 50)
    assert width == 165


def test_a_style_of_matplotlibs(draw_samples):
    figure, _ = draw_samples("--style", "grayscale")
    assert {line.get_label(): line for line in figure.axes[0].lines}["used"].get_color() == (0, 0, 0)


def test_a_title_of_the_users(draw_samples):
    figure, _ = draw_samples("--title", "$5 and $6")
    assert figure.get_suptitle() == "$5 and $6" and figure.axes[0].get_title(loc="left").startswith("target ")
    figure, _ = draw_samples("--title", "")
    assert figure.get_suptitle() == figure.axes[0].get_title(loc="left") == ""


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize(
    "options, message",
    [
        (["--width", "0"], "--width: expected 2 to 40, got 0"),
        (["--width", "nan"], "--width: expected 2 to 40, got nan"),
        (["--dpi", "5"], "--dpi: expected 30 to 1200, got 5"),
        (["--style", "no.mplstyle"], "--style: expected a file, or a style of matplotlib's such as ggplot, got no.mpl"),
        (["--style", "https://x.y"], "--style: expected a file, or a style of matplotlib's such as ggplot, got http"),
        (["--style", "empty"], "--style empty: expected a style sheet of matplotlib's, got a file without any setting"),
        (["--style", "wrong"], "--style wrong: expected a style sheet of matplotlib's (ValueError: Key font.size"),
        (["--style", "."], "--style .: expected a style sheet of matplotlib's (IsADirectoryError"),
        (["--output", "x.gif"], "--output x.gif: expected a name that ends in .png or .pdf or .svg"),
    ],
)  # fmt: skip
def test_wrong_options(fails, tmp_path, monkeypatch, figure, options, message):
    """Every picture has the same options, which are checked before anything is read."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").write_text("# nothing\n")
    (tmp_path / "wrong").write_text("font.size: much\n")
    given = ["absent", "absent.mp4"] if figure == "frames" else ["absent"]
    assert message in fails(main, figure, *given, *options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "wrong"]


def test_more_pixels_than_can_be_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "MOST_PIXELS", 1000)
    with pytest.raises(figures.UserError, match=r"--dpi: expected at most 144 for a picture of 6\.9 by .*, got 200"):
        write("tradeoff", tmp_path / "x.png")
    assert list(tmp_path.iterdir()) == []


def test_a_style_that_needs_what_is_missing(tmp_path, monkeypatch):
    """As LaTeX may be."""
    monkeypatch.setattr(sys.modules[__name__], "PICTURES", {"x": fail})
    with pytest.raises(figures.UserError, match=r"--style: can't be drawn in \(RuntimeError: no latex\)"):
        write("x", tmp_path / "x.png", style={"text.usetex": True})
    with pytest.raises(RuntimeError, match="no latex"):
        write("x", tmp_path / "x.png")
    assert list(tmp_path.iterdir()) == []


def fail(title):
    raise RuntimeError("no latex")
