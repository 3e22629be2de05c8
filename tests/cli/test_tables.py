"""The paper's tables as data, and the command that prints their options."""

import shlex
import sys

import pytest

from skiprnn_plugin.cli.runs import describe
from skiprnn_plugin.cli.tables import TABLES, main

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


def fairseq_options(line):
    """What fairseq makes of a printed line."""
    from fairseq import options

    required = ["--user-dir", str(PLUGIN), "--task", "adding", "--criterion", "mse_with_budget"]
    return options.parse_args_and_arch(options.get_training_parser(), [*required, *shlex.split(line.split("\t")[1])])


def test_adding_is_the_papers():
    rows = TABLES["adding"].rows
    assert [[row.label, *row.paper.values()] for row in rows] == [[label, *paper] for label, _, *paper in ADDING]
    assert len({row.name for row in rows}) == 10


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
