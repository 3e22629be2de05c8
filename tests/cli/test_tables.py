"""The paper's tables as data, and the command that prints their options."""

import shlex
import sys

import pytest

from skiprnn_plugin.cli.runs import describe
from skiprnn_plugin.cli.tables import TABLES, main, plain

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


@pytest.mark.parametrize(
    "value, text",
    [
        (0, "0"), (1.0, "1"), (0.5, "0.5"), (0.02, "0.02"), (1e-3, "1e-3"), (1e-4, "1e-4"), (1e-5, "1e-5"),
        (1.1e-5, "1.1e-5"), (-2.5e-4, "-2.5e-4"), (1.0000000001e-5, "1e-5"), (110, "110"), ("full_gru", "full_gru"),
    ],
)  # fmt: skip
def test_values_are_written_as_in_the_paper(value, text):
    assert plain(value) == text


def test_adding_flops_agree_with_updates():
    """The paper's columns check each other: FLOPs = updates x 50 x multiply-accumulates of an update."""
    per_update = {"lstm": 4 * 110 * (2 + 110), "gru": 3 * 110 * (2 + 110)}
    for row in TABLES["adding"].rows:
        updates = float(row.paper["updates"].split("%")[0]) / 100
        assert float(row.paper["FLOPs"]) == pytest.approx(updates * 50 * per_update[row.cell], rel=0.01)


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
