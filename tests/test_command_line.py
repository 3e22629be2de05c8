"""The tests' own way of running fairseq's commands gives what the commands themselves give."""

import pytest

from .command_line import compose, train_options


@pytest.mark.parametrize(
    "task, options",
    [
        ("adding", ()),
        ("adding", ("--arch", "full_lstm", "--lr", "0.1,0.2", "--update-freq", "1,2", "--adam-betas", "(0.5, 0.9)")),
        ("frequency_discrimination", ("--criterion", "with_budget", "--base-criterion", "cross_entropy", "--fp16")),
        ("imdb_sentiment", ("--gate-layers", "0", "--lr-scheduler", "inverse_sqrt", "--data-dir", "a 'b', [c]={d}")),
    ],
    ids=["as it is", "lists", "other parts", "characters"],
)
def test_configuration_is_hydras(monkeypatch, task, options):
    from fairseq import options as fairseq_options
    from fairseq.dataclass import utils

    parser = fairseq_options.get_training_parser()
    arguments = fairseq_options.parse_args_and_arch(parser, [*train_options(task), *options])
    expected = utils.convert_namespace_to_omegaconf(arguments)
    monkeypatch.setattr(utils, "compose", compose)
    for _ in range(2):  # the second time all of it is kept
        assert utils.convert_namespace_to_omegaconf(arguments) == expected
    assert expected.task._name == task and expected.checkpoint.save_dir == "checkpoints"


def test_configurations_are_independent(monkeypatch):
    from fairseq import options
    from fairseq.dataclass import utils

    monkeypatch.setattr(utils, "compose", compose)
    arguments = options.parse_args_and_arch(options.get_training_parser(), train_options())
    first = utils.convert_namespace_to_omegaconf(arguments)
    first.optimization.lr[0] = 5.0
    first.model.hidden_size = 99
    second = utils.convert_namespace_to_omegaconf(arguments)
    assert (second.optimization.lr, second.model.hidden_size) == ([1e-4], 8)
