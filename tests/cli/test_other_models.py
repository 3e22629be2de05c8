"""Models of fairseq's own tasks in every command: what reports and figures say of them, and what refuses them."""

import logging
import random
from argparse import Namespace

import pytest
import torch
from fairseq import options
from fairseq_cli import preprocess

from skiprnn_plugin.cli.plot import main as plot
from skiprnn_plugin.cli.predict import main as predict
from skiprnn_plugin.cli.report import main as report
from skiprnn_plugin.hub import from_pretrained, load_model

from .. import command_line
from .test_report import cells, table_cells

SIZES = "--encoder-embed-dim 8 --encoder-hidden-size 8 --decoder-embed-dim 8 --decoder-hidden-size 8".split()
ATTENTION = "--encoder-embed-dim 8 --decoder-embed-dim 8 --encoder-ffn-embed-dim 8 --decoder-ffn-embed-dim 8".split()
SKIP = ["--arch", "skip_lstm_seq2seq", *SIZES, "--update-bias", -2]
BUDGET = "--criterion with_budget --base-criterion label_smoothed_cross_entropy --label-smoothing 0.1".split()
RUNS = {
    "budget": [*SKIP, *BUDGET, "--eval-bleu"],
    "no budget": [*SKIP, "--criterion", "label_smoothed_cross_entropy", "--label-smoothing", 0.1],
    "lstm": ["--arch", "lstm", *SIZES, "--criterion", "label_smoothed_cross_entropy"],
    "transformer": [
        *("--arch", "transformer", "--encoder-layers", 1, "--decoder-layers", 1, *ATTENTION),
        *("--encoder-attention-heads", 1, "--decoder-attention-heads", 1, "--criterion", "cross_entropy"),
    ],
}
LABELS = {"budget": "Skip LSTM, λ=0", "no budget": "Skip LSTM, λ=0", "lstm": "lstm", "transformer": "transformer"}
TRAIN = "--cpu --task translation --max-tokens 200 --optimizer adam --lr 1e-3 --max-update 2 --num-workers 0".split()
TRAIN += "--log-format json --required-batch-size-multiple 1 --no-epoch-checkpoints".split()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    draw = random.Random(0)
    for split, size in (("train", 40), ("valid", 9)):
        sources = [draw.choices("abcdefgh", k=draw.randint(3, 9)) for _ in range(size)]
        for language, lines in (("source", sources), ("target", [line[::-1] for line in sources])):
            (folder / f"{split}.{language}").write_text("".join(" ".join(line) + "\n" for line in lines))
    paths = ["--trainpref", folder / "train", "--validpref", folder / "valid", "--destdir", folder / "data"]
    arguments = ["--source-lang", "source", "--target-lang", "target", *map(str, paths)]
    preprocess.main(options.get_preprocessing_parser().parse_args(arguments))
    return folder / "data"


@pytest.fixture(scope="module")
def runs(corpus, tmp_path_factory):
    """By name, the save-dir of a run of 2 updates with a log, and its last validation."""
    logging.getLogger("fairseq_cli.train").setLevel(logging.INFO)
    found = {}
    for name, arguments in RUNS.items():
        folder = tmp_path_factory.mktemp(name.replace(" ", "-"))
        paths = ("--save-dir", folder, "--log-file", folder / "train.log", "--user-dir", command_line.PLUGIN)
        logged = command_line.run_here("train", list(map(str, [corpus, *TRAIN, *arguments, *paths])))["valid"][-1]
        found[name] = folder, {metric.removeprefix("valid_"): value for metric, value in logged.items()}
        for logger in map(logging.getLogger, list(logging.root.manager.loggerDict)):
            for handler in logger.handlers[:]:
                if isinstance(handler, logging.FileHandler):
                    logger.removeHandler(handler)
    return found


@pytest.mark.parametrize("name", RUNS)
def test_report(runs, prints, name):
    folder, logged = runs[name]
    for run in (folder, folder / "train.log"):
        head, (line,) = cells(prints(report, run))
        shown = dict(zip(head, line))
        assert shown["model"] == LABELS[name] and shown["runs"] == "1"
        assert [shown[metric] for metric in ("ppl", "loss")] == [f"{logged[metric]:.4g}" for metric in ("ppl", "loss")]
        assert ("bleu" in shown) == (name == "budget")
        if name in ("lstm", "transformer"):
            assert shown["samples used"] == "100.0%"
        elif name == "budget":
            assert shown["bleu"] == f"{logged['bleu']:.4g}"
            assert shown["samples used"] == f"{logged['update_fraction']:.1%}" != "100.0%"
        else:  # a log does not say it; the model is that of the run with a budget, as lambda is 0
            counted = runs["budget"][1]
            expected = (f"{counted['update_fraction']:.1%}", f"{counted['updates']:.1f}")
            if run == folder:
                assert (shown["samples used"], shown["samples used per sequence"]) == expected
            else:
                assert "samples used" not in shown


def test_figures(runs, prints, fails, figures, tmp_path):
    output = ("--output", tmp_path / "figure.png")
    printed = prints(plot, "tradeoff", *(folder for folder, _ in runs.values()), *output)
    found = {line[0].split(",")[0]: line[1:3] for line in table_cells(printed)[1]}
    for name in ("lstm", "transformer"):
        assert found[name] == ["1", f"{runs[name][1]['ppl']:.4g}"]
    assert figures[-1].axes[0].get_ylabel() == "perplexity"
    budget = runs["budget"]
    line = table_cells(prints(plot, "tradeoff", budget[0] / "train.log", *output))[1][0]
    assert line[1:3] == [f"{budget[1]['update_fraction']:.4g}", f"{budget[1]['bleu']:.4g}"]
    assert figures[-1].axes[0].get_ylabel() == "BLEU"
    printed = prints(plot, "curves", *(folder / "train.log" for folder, _ in runs.values()), *output)
    assert [line[1:3] for line in table_cells(printed)[1]][2] == ["2", f"{runs['lstm'][1]['ppl']:.4g}"]
    message = fails(plot, "tradeoff", runs["no budget"][0] / "train.log", *output)
    assert "has no metric 'update_fraction', which a checkpoint gives" in message


@pytest.mark.parametrize("name", ["budget", "lstm"])
def test_what_refuses_them(runs, fails, name, tmp_path):
    folder, _ = runs[name]
    for main, *arguments in (
        (plot, "samples", folder),
        (plot, "skips", folder),
        (plot, "classes", folder),
        (plot, "frames", folder, "clip.mp4"),
        (predict, folder, "--text", "a b"),
        (predict, folder, tmp_path),
    ):
        message = fails(main, *arguments)
        assert f"{folder}" in message and ": expected a model of a SequenceTask" in message
        assert "got task translation; for any model there are skiprnn-report" in message


@pytest.mark.parametrize("name", ["budget", "lstm"])
def test_hub(runs, corpus, name):
    folder, _ = runs[name]
    hub = from_pretrained(folder)
    call = hub.model.encoder(torch.tensor([[4, 5, 2]]), torch.tensor([3]))
    assert call[0].shape[1:] == (1, 8)
    named = f"{type(hub.model).__module__}.{type(hub.model).__name__}.from_pretrained returns"
    for use in (hub.predict, hub.used_samples, hub.encode, lambda raw: list(hub.run(raw)), lambda raw: hub.class_names):
        with pytest.raises(ValueError, match=f"^task translation: expected a SequenceTask.*{named}$"):
            use(["a b"])
    theirs = type(hub.model).from_pretrained(str(folder), "checkpoint_last.pt", str(corpus))
    assert isinstance(theirs.translate("a b c"), str)


def test_an_old_checkpoint(runs, corpus, tmp_path):
    """Of a version of fairseq that stored a Namespace of all options instead of a configuration."""
    folder, _ = runs["lstm"]
    state = torch.load(folder / "checkpoint_last.pt")
    state["args"], state["cfg"] = Namespace(**vars(state["cfg"]["model"])), None
    torch.save(state, tmp_path / "old.pt")
    loaded = load_model(tmp_path / "old.pt", {"seed": 5})
    assert loaded.cfg.common.seed == 5
    for key, value in load_model(folder / "checkpoint_last.pt").model.state_dict().items():
        torch.testing.assert_close(loaded.model.state_dict()[key], value, rtol=0, atol=0)
