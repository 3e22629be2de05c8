"""The paper's tables as data, and the command that prints their options."""

import shlex
import sys

import pytest

from skiprnn_plugin.cli.tables import main
from skiprnn_plugin.runs.rows import describe, find_departures
from skiprnn_plugin.runs.tables import TABLES, plain

from ..command_line import PLUGIN, ROOT, run

ADDING = """
LSTM                   | full    lstm 0           | Yes | 100.0% ± 0.0% | 2.46e6
LSTM (p_skip = 0.2)    | random  lstm 0    0.2    | No  | 80.0% ± 0.1%  | 1.97e6
LSTM (p_skip = 0.5)    | random  lstm 0    0.5    | No  | 50.1% ± 0.1%  | 1.23e6
Skip LSTM, lambda=0    | learned lstm 0           | Yes | 81.1% ± 3.6%  | 2.00e6
Skip LSTM, lambda=1e-5 | learned lstm 1e-5        | Yes | 53.9% ± 2.1%  | 1.33e6
GRU                    | full    gru  0           | Yes | 100.0% ± 0.0% | 1.85e6
GRU (p_skip = 0.02)    | random  gru  0    0.02   | No  | 98.0% ± 0.0%  | 1.81e6
GRU (p_skip = 0.5)     | random  gru  0    0.5    | No  | 49.9% ± 0.6%  | 9.25e5
Skip GRU, lambda=0     | learned gru  0           | Yes | 97.9% ± 3.2%  | 1.81e6
Skip GRU, lambda=1e-5  | learned gru  1e-5        | Yes | 50.7% ± 2.6%  | 9.40e5
"""
ADDING = [[field.strip() for field in line.split("|")] for line in ADDING.strip().split("\n")]

# Updates by label, of the paper's table of each sampling period
FREQUENCY = {
    "1": {
        "LSTM": "100.0 ± 0.00",
        "Skip LSTM, lambda=0": "55.5 ± 16.9",
        "Skip LSTM, lambda=1e-5": "47.4 ± 14.1",
        "Skip LSTM, lambda=1e-4": "12.7 ± 0.5",
        "GRU": "100.0 ± 0.00",
        "Skip GRU, lambda=0": "73.7 ± 17.9",
        "Skip GRU, lambda=1e-5": "51.9 ± 10.2",
        "Skip GRU, lambda=1e-4": "23.5 ± 6.2",
    },
    "0.5": {
        "LSTM": "200.0 ± 0.00",
        "Skip LSTM, lambda=0": "147.9 ± 27.0",
        "Skip LSTM, lambda=1e-5": "50.7 ± 16.8",
        "Skip LSTM, lambda=1e-4": "19.9 ± 1.5",
        "GRU": "200.0 ± 0.00",
        "Skip GRU, lambda=0": "167.0 ± 18.3",
        "Skip GRU, lambda=1e-5": "54.2 ± 4.4",
        "Skip GRU, lambda=1e-4": "22.5 ± 2.1",
    },
}


def fairseq_options(line):
    """What fairseq makes of a printed line."""
    from fairseq import options

    required = ["--user-dir", str(PLUGIN), "--task", "adding", "--criterion", "mse_with_budget"]
    return options.parse_args_and_arch(options.get_training_parser(), [*required, *shlex.split(line.split("\t")[1])])


def test_adding_is_the_papers():
    rows = TABLES["adding"].rows
    assert [[row.label, *row.paper.values()] for row in rows] == [[label, *paper] for label, _, *paper in ADDING]
    assert len({row.name for row in rows}) == 10


@pytest.mark.parametrize("period", FREQUENCY)
def test_frequency_is_the_papers(prints, period):
    table = TABLES[f"frequency-{period}ms"]
    assert table.condition == {"sampling_period": float(period)}
    assert [row.label for row in table.rows] == list(FREQUENCY[period])
    lines = prints(main, table.name).splitlines()
    for row, line in zip(table.rows, lines):
        assert row.paper == {"solved": "Yes", "updates": FREQUENCY[period][row.label]}
        assert describe(vars(fairseq_options(line))) == row.label
    assert [line.split("\t")[0] for line in lines] == [
        "lstm", "skip-lstm-0", "skip-lstm-1e-5", "skip-lstm-1e-4", "gru", "skip-gru-0", "skip-gru-1e-5", "skip-gru-1e-4"
    ]  # fmt: skip


# What the paper prints of a row: label, then the columns of its table
PRINTED = {
    "mnist": """
LSTM | 0.910 ± 0.045 | 784.00 ± 0.00 | 3.83e7
LSTM (p_skip = 0.5) | 0.893 ± 0.003 | 392.03 ± 0.05 | 1.91e7
Skip LSTM, lambda=1e-4 | 0.973 ± 0.002 | 379.38 ± 33.09 | 1.86e7
GRU | 0.968 ± 0.013 | 784.00 ± 0.00 | 2.87e7
GRU (p_skip = 0.5) | 0.912 ± 0.004 | 391.86 ± 0.14 | 1.44e7
Skip GRU, lambda=1e-4 | 0.976 ± 0.003 | 392.62 ± 26.48 | 1.44e7
TANH-RNN (cited) | 0.350 | 784.00 | -
iRNN (cited) | 0.970 | 784.00 | -
uRNN (cited) | 0.951 | 784.00 | -
sTANH-RNN (cited) | 0.981 | 784.00 | -
LSTM (cited) | 0.989 | 784.00 | -
BN-LSTM (cited) | 0.990 | 784.00 | -
""",
    "imdb-200": """
LSTM | 0.843 ± 0.003 | 200.00 ± 0.00
Skip LSTM, lambda=0 | 0.844 ± 0.004 | 196.75 ± 5.63
Skip LSTM, lambda=1e-5 | 0.846 ± 0.004 | 197.15 ± 3.16
Skip LSTM, lambda=1e-4 | 0.837 ± 0.006 | 164.65 ± 8.67
Skip LSTM, lambda=1e-3 | 0.811 ± 0.007 | 73.85 ± 1.90
GRU | 0.845 ± 0.006 | 200.00 ± 0.00
Skip GRU, lambda=0 | 0.848 ± 0.002 | 200.00 ± 0.00
Skip GRU, lambda=1e-5 | 0.842 ± 0.005 | 199.25 ± 1.30
Skip GRU, lambda=1e-4 | 0.834 ± 0.006 | 180.97 ± 8.90
Skip GRU, lambda=1e-3 | 0.800 ± 0.007 | 106.15 ± 37.92
""",
    "imdb-400": """
LSTM | 0.868 ± 0.004 | 400.00 ± 0.00
Skip LSTM, lambda=0 | 0.866 ± 0.004 | 369.70 ± 19.35
Skip LSTM, lambda=1e-5 | 0.865 ± 0.001 | 380.62 ± 18.20
Skip LSTM, lambda=1e-4 | 0.862 ± 0.003 | 186.30 ± 25.72
Skip LSTM, lambda=1e-3 | 0.836 ± 0.007 | 84.22 ± 1.98
GRU | 0.862 ± 0.003 | 400.00 ± 0.00
Skip GRU, lambda=0 | 0.866 ± 0.002 | 399.02 ± 1.69
Skip GRU, lambda=1e-5 | 0.862 ± 0.008 | 398.00 ± 2.06
Skip GRU, lambda=1e-4 | 0.853 ± 0.011 | 314.30 ± 2.82
Skip GRU, lambda=1e-3 | 0.814 ± 0.005 | 99.12 ± 2.69
""",
    "ucf101": """
LSTM | 0.671 | 250.0 | 9.52e11
Skip LSTM, lambda=0 | 0.749 | 138.9 | 5.29e11
Skip LSTM, lambda=1e-5 | 0.757 | 24.2 | 9.21e10
Skip LSTM, lambda=1e-4 | 0.790 | 7.6 | 2.89e10
GRU | 0.791 | 250.0 | 9.51e11
Skip GRU, lambda=0 | 0.796 | 124.2 | 4.73e11
Skip GRU, lambda=1e-5 | 0.792 | 29.7 | 1.13e11
Skip GRU, lambda=1e-4 | 0.793 | 23.7 | 9.02e10
I3D RGB (cited) | 0.845 | - | -
Two-stream I3D (cited) | 0.934 | - | -
""",
    "charades": """
LSTM | 8.40% | 172.9 ± 47.4 | 2.65e12
LSTM (p_skip = 0.75) | 8.11% | 43.3 ± 13.2 | 6.63e11
LSTM (p_skip = 0.90) | 7.21% | 17.2 ± 6.1 | 2.65e11
Skip LSTM, lambda=0 | 8.32% | 172.9 ± 47.4 | 2.65e12
Skip LSTM, lambda=1e-4 | 8.61% | 172.9 ± 47.4 | 2.65e12
Skip LSTM, lambda=1e-3 | 8.32% | 41.9 ± 11.3 | 6.41e11
Skip LSTM, lambda=1e-2 | 7.86% | 17.4 ± 4.4 | 2.66e11
GRU | 8.70% | 172.9 ± 47.4 | 2.65e12
GRU (p_skip = 0.10) | 8.94% | 155.6 ± 42.9 | 2.39e12
GRU (p_skip = 0.40) | 8.81% | 103.6 ± 29.3 | 1.06e12
GRU (p_skip = 0.70) | 8.42% | 51.9 ± 15.4 | 7.95e11
GRU (p_skip = 0.90) | 7.09% | 17.3 ± 6.3 | 2.65e11
Skip GRU, lambda=0 | 8.94% | 159.9 ± 46.9 | 2.45e12
Skip GRU, lambda=1e-4 | 8.76% | 100.8 ± 28.1 | 1.54e12
Skip GRU, lambda=1e-3 | 8.68% | 54.2 ± 16.2 | 8.29e11
Skip GRU, lambda=1e-2 | 7.95% | 18.4 ± 5.1 | 2.82e11
""",
}
# Multiply-accumulates of an update by the papers' count, with the encoder of a video's frames
PER_UPDATE = {
    "adding": {"lstm": 50 * 4 * 110 * 112, "gru": 50 * 3 * 110 * 112},  # of a sequence; updates are a fraction
    "mnist": {"lstm": 4 * 110 * 111, "gru": 3 * 110 * 111},
    "ucf101": {"lstm": 4 * 512 * (2560 + 1024) + 3.8e9, "gru": 3 * 512 * (2560 + 1024) + 3.8e9},
    "charades": {"lstm": 4 * 256 * (4352 + 512) + 1.533e10, "gru": 3 * 256 * (4352 + 512) + 1.533e10},
}


@pytest.mark.parametrize("name", PRINTED)
def test_the_other_tables_are_the_papers(prints, name):
    table = TABLES[name]
    titles = [column.title for column in table.columns]
    rows = [*table.rows, *table.cited]
    printed = [[field.strip() for field in line.split("|")] for line in PRINTED[name].strip().split("\n")]
    assert [[row.label, *(row.paper.get(title, "-") for title in titles)][: len(printed[0])] for row in rows] == printed
    assert len({row.name for row in rows}) == len(rows)
    lines = prints(main, name).splitlines()
    assert [line.split("\t")[0] for line in lines] == [row.name for row in table.rows]  # what others did is not run
    for row, line in zip(table.rows, lines):
        args = fairseq_options(line)
        assert (args.cell, args.update_rule) == (row.cell, row.update_rule)
        value = row.label.split("=")[-1].rstrip(")") if "=" in row.label else "0"
        assert (args.skip_prob if row.update_rule == "random" else args.cost_per_sample) == float(value)


@pytest.mark.parametrize("name", PER_UPDATE)
def test_flops_agree_with_updates(name):
    """The paper's columns check each other: FLOPs = updates x multiply-accumulates of an update."""
    for row in TABLES[name].rows:
        if (name, row.name) == ("charades", "gru-skip-0.40"):
            continue  # by the paper's own count it should be 1.59e12
        number, percent, _ = row.paper["updates"].split(" ")[0].partition("%")
        updates = float(number) / (100 if percent else 1)
        assert float(row.paper["FLOPs"]) == pytest.approx(updates * PER_UPDATE[name][row.cell], rel=0.01), row.name


@pytest.mark.parametrize(
    "value, text",
    [
        (0, "0"), (1.0, "1"), (0.5, "0.5"), (0.02, "0.02"), (0.01, "0.01"), (1e-3, "1e-3"), (1e-4, "1e-4"),
        (1e-5, "1e-5"), (1.1e-5, "1.1e-5"), (-2.5e-4, "-2.5e-4"), (1.0000000001e-5, "1e-5"), (110, "110"),
        (False, "False"), ("full_gru", "full_gru"),
    ],
)  # fmt: skip
def test_values_are_written_as_in_the_paper(value, text):
    assert plain(value) == text


def test_pad_words_are_steps_in_the_paper():
    """Whose full models make 200 and 400 updates."""
    for name in ("imdb-200", "imdb-400"):
        assert find_departures(TABLES[name], {"padding": "masked"}) == {"padding": "data"}


def test_fairseq_takes_the_printed_options(prints):
    lines = prints(main, "adding").splitlines()
    assert [line.split("\t")[0] for line in lines] == [row.name for row in TABLES["adding"].rows]
    for line, row, (_, expected, *_) in zip(lines, TABLES["adding"].rows, ADDING):
        rule, cell, cost, *skip_prob = expected.split()
        args = fairseq_options(line)
        assert (args.update_rule, args.cell, args.cost_per_sample) == (rule, cell, float(cost))
        if skip_prob:
            assert args.skip_prob == float(skip_prob[0])
        assert describe(vars(args)) == row.label
        assert (row.update_rule, row.cell) == (rule, cell)


def test_chosen_rows(prints):
    lines = prints(main, "adding", "skip-gru-1e-5", "lstm-skip-0.2").splitlines()
    assert lines == [
        "skip-gru-1e-5\t--arch skip_gru --cost-per-sample 1e-5",
        "lstm-skip-0.2\t--arch random_skip_lstm --cost-per-sample 0 --skip-prob 0.2",
    ]


@pytest.mark.parametrize(
    "arguments, named", [(["subtracting"], ["subtracting", "adding"]), (["adding", "gru", "gru-0"], ["gru-0", "gru,"])]
)
def test_unknown(fails, arguments, named):
    message = fails(main, *arguments)
    assert all(name in message for name in named)


def test_a_script_gets_its_answer_without_torch():
    code = "import sys; from skiprnn_plugin.cli.tables import main; main(['adding', 'gru'])"
    process = run(sys.executable, "-c", f"{code}; print({{'torch', 'fairseq'}} & set(sys.modules))", PYTHONPATH=ROOT)
    assert process.stdout == "gru\t--arch full_gru --cost-per-sample 0\nset()\n", process.stderr
