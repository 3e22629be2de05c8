"""``skiprnn-plot samples`` of images and texts: what is drawn, and that it is what the model used."""

from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from matplotlib.image import imread

from skiprnn_plugin.cli.plot import images, main, text
from skiprnn_plugin.cli.plot.elements import get_colors
from skiprnn_plugin.cli.plot.text import Text, as_html, wrap
from skiprnn_plugin.runs.samples import Read
from skiprnn_plugin.tasks.presentation import Drawing, Presented

from ..command_line import train
from ..idx_files import write_digits
from ..tiny_texts import write_texts
from .test_plot_samples import run_model

# Two images of 2 x 2 pixels
PIXELS = np.array([[0.0, 0.2, 0.4, 0.6], [1.0, 0.8, 0.6, 0.4]])
USED = np.array([[1, 0, 0, 1], [1, 1, 0, 0]], dtype=bool)


def make_task(class_names, **attributes):
    task = Presented()
    vars(task).update(predicts="classes", per_step=False, class_names=class_names, **attributes)
    return task


def make_images(x, used, permutation=None):
    steps = x.shape[1]
    read = Read(x, used, np.array([steps] * 2), np.array([0, 1]), np.array([[0.1, 0.9], [0.2, 0.8]]))
    return images.make(make_task(["0", "1"], drawing=Drawing("images", pixel_order=permutation)), read)


@pytest.mark.parametrize("order", [None, [2, 0, 3, 1]])
def test_pixels_are_put_back_in_their_places(order):
    chosen = slice(None) if order is None else order
    made = make_images(PIXELS[:, chosen, None], USED[:, chosen], order and np.array(order))
    assert made.pixels.tolist() == PIXELS.reshape(2, 2, 2).tolist()
    assert made.used.tolist() == USED.reshape(2, 2, 2).tolist()
    assert made.captions == ["label 0, predicted 1\nused 2 of 4", "label 1, predicted 1\nused 2 of 4"]


def test_a_row_is_used_as_a_whole():
    made = make_images(PIXELS.reshape(2, 2, 2), np.array([[1, 0], [0, 1]], dtype=bool))
    assert made.pixels.tolist() == PIXELS.reshape(2, 2, 2).tolist()
    assert made.used.tolist() == [[[True, True], [False, False]], [[False, False], [True, True]]]
    assert made.captions[0].endswith("used 1 of 2")


def is_blue(colours):
    return colours[..., 2] > colours[..., 0] + 0.1


def test_used_is_blue_and_skipped_is_grey_whatever_the_brightness(look):
    colours = images.colour(make_images(PIXELS[..., None], USED), get_colors())
    used = USED.reshape(2, 2, 2)
    assert is_blue(colours)[used].all() and (np.ptp(colours, axis=-1)[~used] < 1e-9).all()
    dark, light = colours[1, 0, 0], colours[0, 0, 0]  # of a white and a black pixel, both used
    assert light.sum() > dark.sum() + 1


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Checkpoints by the way in which they read images."""
    data = tmp_path_factory.mktemp("mnist")
    write_digits(data)
    runs = {"rows": (), "permuted": ("--permuted",)}
    for name, options in runs.items():
        options = ("--data-dir", data, "--rows", "--update-bias", -1, "--max-update", 1, *options)
        runs[name] = tmp_path_factory.mktemp(name)
        train(runs[name], *options, task="sequential_mnist")
    return runs


@pytest.mark.parametrize("name", ["rows", "permuted"])
def test_shows_the_models_own_updates(prints, digits, tmp_path, figures, name):
    prints(main, "samples", digits[name], "--output", tmp_path / "digits.png", "--num-sequences", 3)
    height, width, _ = imread(tmp_path / "digits.png").shape
    assert width == 1380 and 250 < height < 500
    sample, output = run_model(digits[name] / "checkpoint_last.pt")
    panels = figures[0].axes[:3]
    for panel, u, target, y in zip(panels, output.updates[:, 0], sample["target"], output.prediction):
        (image,) = panel.images
        blue = is_blue(image.get_array())
        assert blue.sum() == 28 * u.sum()
        if name == "rows":
            assert (blue == (u[:, None] > 0).expand(28, 28).numpy()).all()
        assert panel.get_title() == f"label {int(target)}, predicted {int(y.argmax())}\nused {int(u.sum())} of 28"
    assert 0 < output.updates.mean() < 1  # so that there is something to tell apart
    assert [text.get_text() for text in figures[0].legends[0].get_texts()] == ["used", "skipped"]


class Page(HTMLParser):
    """Headings, and (class, text) of the spans of each paragraph."""

    def __init__(self, text):
        super().__init__()
        self.headings, self.paragraphs, self.tag = [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tag = (tag, dict(attrs).get("class"))
        if tag == "p":
            self.paragraphs.append([])

    def handle_endtag(self, tag):
        self.tag = None

    def handle_data(self, data):
        if self.tag and self.tag[0] == "h2":
            self.headings.append(data)
        if self.tag and self.tag[0] == "span":
            self.paragraphs[-1].append((self.tag[1], data))


class Words(dict):
    def pad(self):
        return 1


def test_words_and_pad_words():
    words = Words({1: "<pad>", 2: "good", 3: "<br>", 4: "&"})
    task = make_task(["neg", "pos"], source_dictionary=words)
    read = Read(
        np.array([[1, 1, 2, 3, 4], [2, 1, 1, 1, 1]]),
        np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0]], dtype=bool),
        np.array([5, 1]),  # the second sequence has ended before
        np.array([1, 0]),
        np.array([[0.0, 0.0], [np.log(3), 0]]),
    )
    first, second = text.make(task, read)
    assert first.words == [("[2 pad words, 1 used]", "pad"), ("good", "used"), ("<br>", "used"), ("&", "skipped")]
    assert first.caption == "label pos, predicted neg (probability 0.500), used 3 of 5"
    assert second == Text("label neg, predicted neg (probability 0.750), used 0 of 1", [("good", "skipped")])

    page = Page(as_html([first, second]))
    assert page.headings == [first.caption, second.caption]
    assert page.paragraphs == [
        [("used", "used"), ("skipped", "skipped")],  # the key
        [("pad", "[2 pad words, 1 used]"), ("used", "good <br>"), ("skipped", "&")],
        [("skipped", "good")],
    ]


def test_lines():
    assert wrap([("a", "used"), ("b", "used"), ("c", "skipped"), ("d", "used")], 20) == [
        [(0, "a b", "used"), (4, "c", "skipped"), (6, "d", "used")]
    ]
    long, fits = "x" * 25, "y" * 14
    assert wrap([("a", "used"), (long, "used"), (fits, "skipped"), ("b", "skipped")], 20) == [
        [(0, "a", "used")],
        [(0, long[:20], "used")],
        [(0, "xxxxx", "used"), (6, fits, "skipped")],
        [(0, "b", "skipped")],
    ]


@pytest.fixture(scope="module", params=["data", "masked"])
def texts(tmp_path_factory, request):
    """A model of texts, padded with words or not at all."""
    folder = write_texts(tmp_path_factory.mktemp("texts") / "data")
    save_dir = tmp_path_factory.mktemp("run")
    options = ("--data-dir", folder, "--padding", request.param, "--update-bias", -1, "--max-update", 1)
    train(save_dir, *options, task="imdb_sentiment")
    return save_dir


def test_shows_the_words_that_the_model_used(prints, texts, tmp_path, figures):
    from fairseq import checkpoint_utils

    for suffix in ("html", "png"):
        prints(main, "samples", texts, "--output", tmp_path / f"words.{suffix}", "--num-sequences", 3)
    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(texts / "checkpoint_last.pt")])
    task.load_dataset("valid")
    data = task.dataset("valid")
    page = Page((tmp_path / "words.html").read_text())
    written = [text.get_text() for text in figures[0].texts]
    for index, heading, spans in zip((0, 18, 35), page.headings, page.paragraphs[1:]):  # spread over the split
        item = data[index]
        with torch.no_grad():
            output = models[0].eval()(**data.collater([item])["net_input"])
        used = output.updates[0, 0].bool().tolist()
        words = [(task.source_dictionary[n], u) for n, u in zip(item["x"].tolist(), used) if n != 1]
        shown = [(word, kind == "used") for kind, text in spans if kind != "pad" for word in text.split()]
        assert shown == words
        assert heading.endswith(f"used {sum(used)} of {len(item['x'])}")
        assert heading.startswith(f"label {'neg pos'.split()[item['target']]}, predicted ")
        assert heading in written
    assert (tmp_path / "words.png").stat().st_size > 5000 and len(page.headings) == 3


def test_only_texts_are_a_page(fails, tiny, tmp_path):
    message = fails(main, "samples", tiny["seed1"].checkpoint, "--output", tmp_path / "samples.html")
    assert "samples.html: expected a name that ends in .png or .pdf or .svg; .html is for texts\n" in message
    assert list(tmp_path.iterdir()) == []
