"""Options whose values make no sense: one message names the option, on the command line and in YAML."""

import random

import omegaconf
import pytest
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from hydra.experimental import compose, initialize_config_dir  # fairseq uses them, and all versions have them

from .command_line import PLUGIN, train, train_options
from .forked import SCRIPTS, run_forked
from .selection import quick_in

WORDS = ("", "abc", "none", "1,2,x")
NOT_WHOLE = (*WORDS, "1e3", "5.5", "nan", "inf")
NOT_FINITE = (*WORDS, "nan", "inf", "-inf")
UNKNOWN = ("", "abc", "Round", "0")

# Values that options refuse, by the section of the configuration
BAD = {
    "model": {
        "hidden_size": (*NOT_WHOLE, "0", "-4"),
        "num_layers": (*NOT_WHOLE, "0", "-1"),
        "dropout": (*NOT_FINITE, "1", "-0.1"),
        "skip_prob": (*NOT_FINITE, "1.5", "-0.1"),
        "update_bias": NOT_FINITE,
        **{name: UNKNOWN for name in ("binarize", "gru_reset", "init", "engine", "cell", "update_rule")},
    },
    "task": {
        "sequence_length": (*NOT_WHOLE, "1", "-50"),
        "train_size": (*NOT_WHOLE, "0", "-1"),
        "valid_size": (*NOT_WHOLE, "0"),
        "valid_seed": (*NOT_WHOLE, "-1"),
        "stop_update_fraction": (*NOT_FINITE, "2", "-1"),
        "min_value": (*NOT_FINITE, "2"),
        "max_value": (*NOT_FINITE, "-2"),
    },
    "criterion": {
        "cost_per_sample": (*NOT_FINITE, "-1"),
        "budget": (*UNKNOWN, "l1", "l2"),
        "target_updates": (*NOT_FINITE, "5"),
    },
    "optimization": {
        "max_update": (*NOT_WHOLE, "-1"),
        "clip_norm": ("abc", "nan", "-1"),
        "update_freq": ("abc", "0", "1,x", "-1"),
        "lr": ("abc", "-1"),
    },
    "dataset": {
        "batch_size": (*NOT_WHOLE, "0", "-1"),
        "max_tokens": (*NOT_WHOLE, "0", "5"),
        "num_workers": (*NOT_WHOLE, "-1"),
        "validate_interval": (*NOT_WHOLE, "0"),
        "valid_subset": ("", "train", "valid,train"),
    },
    "checkpoint": {"save_interval": (*NOT_WHOLE, "0"), "restore_file": ("nothing.pt",), "patience": NOT_WHOLE},
    "common": {"log_interval": (*NOT_WHOLE, "0", "-1")},
    "optimizer": {"adam_betas": ("abc", "0.9", "(0.9,)", "(0.9, 2)"), "adam_eps": ("abc", "nan")},
}
CASES = [(section, name, value) for section, options in BAD.items() for name in options for value in options[name]]
SEED = 0


def chosen(count, seed, cases):
    return random.Random(seed).sample(cases, count)


@pytest.mark.parametrize("section, name, value", chosen(30, SEED, CASES), ids=lambda value: repr(value))
def test_command_line(tmp_path, capsys, section, name, value):
    flag = f"--{name.replace('_', '-')}"
    with pytest.raises((SystemExit, ValueError)) as caught:
        train(tmp_path, f"{flag}={value}")
    check(caught.value, flag, capsys)


def check(error, flag, capsys):
    """argparse's usage message or the plugin's ValueError, which must be one line."""
    if isinstance(error, SystemExit):
        assert error.code == 2
        message = capsys.readouterr().err.splitlines()[-1]
        assert message.startswith("fairseq-train: error: ") and flag in message
    else:
        assert str(error).startswith("--") and flag in str(error) and "\n" not in str(error)


@pytest.mark.parametrize(
    "options, named",
    [
        (["--arch", "skip_grru"], "--arch"),
        (["--task", "addding"], "--task"),
        (["--criterion", "mse"], "--criterion"),
        (["--criterion", "cross_entropy_with_budget"], "--criterion"),
        (["--optimizer", "adamm"], "--optimizer"),
        (["--hiden-size", "4"], "--hiden-size"),
        (["--hidden", "4"], "--hidden"),
        (["--bidirectional", "3"], "unrecognized arguments: 3"),
        (["--gate-layers", "a,b"], "--gate-layers"),
        (["--gate-layers", "0,1"], "--gate-layers"),
        (["--gate-layers", ""], "--gate-layers"),
        (["--budget", "l2"], "--target-updates"),
        (["--arch", "full_gru", "--target-fraction", "0.5"], "--target-fraction"),
        (["--lr", ""], "--lr"),
        (["--num-layers"], "--num-layers"),
        (["--engine", "indexed", "--zoneout", "0.1"], "--engine: 'indexed' has no zoneout; expected auto or one of"),
        (["--engine", "native", "--recurrent-dropout", "0.1"], "--engine: 'native' has no recurrent_dropout"),
        (["--engine", "native", "--layer-norm"], "--engine: 'native' has no layer_norm"),
        (["--combine-valid-subsets", "--valid-subset", "valid,test"], "--combine-valid-subsets: goes with"),
        (["--best-checkpoint-metric", "acuracy"], "--best-checkpoint-metric"),
    ],
    ids=str,
)
def test_names_and_combinations(tmp_path, capsys, options, named):
    with pytest.raises((SystemExit, ValueError)) as caught:
        train(tmp_path, *options)
    check(caught.value, named, capsys)


@pytest.fixture(scope="module")
def hydra():
    """``hydra(*overrides)`` trains like fairseq-hydra-train, in this process."""
    from fairseq.dataclass.initialize import hydra_init
    from fairseq_cli.hydra_train import _hydra_main

    hydra_init("skip_rnn")
    # fairseq-hydra-train composes the configuration before it imports the plugin; here the plugin is imported already
    store = ConfigStore.instance().repo
    nodes = [("task", "adding.yaml"), ("model", "skip_rnn.yaml"), ("criterion", "mse_with_budget.yaml")]
    removed = [store[group].pop(name) for group, name in nodes]

    def call(*overrides):
        GlobalHydra.instance().clear()
        common = ["common.cpu=true", f"common.user_dir={PLUGIN}", "dataset.num_workers=0", "task.train_size=32"]
        common += ["task.valid_size=16", "task.sequence_length=10", "dataset.batch_size=16"]
        with initialize_config_dir(str(PLUGIN / "config")):
            cfg = compose("skip_rnn", [*common, "optimization.max_update=1", *overrides])
        _hydra_main(cfg)

    yield call
    GlobalHydra.instance().clear()
    for (group, name), node in zip(nodes, removed):
        store[group][name] = node


def test_hydra_trains(hydra, tmp_path):
    hydra(f"checkpoint.save_dir={tmp_path}")
    assert (tmp_path / "checkpoint_last.pt").exists()


LISTS = ("lr", "update_freq")  # in YAML they are lists, not text with commas


@pytest.mark.parametrize(
    "section, name, value",
    quick_in(3, chosen(20, SEED + 1, [case for case in CASES if case[1] not in LISTS and case[2] not in ("none", "")])),
    ids=lambda value: repr(value),
)
def test_yaml(hydra, tmp_path, section, name, value):
    if "," in value or "(" in value:
        value = f"'{value}'"
    with pytest.raises((HydraException, omegaconf.errors.OmegaConfBaseException, ValueError)) as caught:
        hydra(f"checkpoint.save_dir={tmp_path}", f"{section}.{name}={value}")
    message = str(caught.value)
    if isinstance(caught.value, (HydraException, omegaconf.errors.OmegaConfBaseException)):
        assert name in message
    else:
        assert message.startswith("--") and f"--{name.replace('_', '-')}" in message and "\n" not in message


@pytest.mark.parametrize(
    "override, named",
    [
        ("model.hiden_size=4", "hiden_size"),
        ("+model.hiden_size=4", "hiden_size"),
        ("+task.lenght=4", "lenght"),
        ("+criterion.cost=4", "cost"),
        ("optimization.lrr=[1]", "lrr"),
        ("model=skip_grru", "skip_grru"),
        ("optimization.lr=[]", "--lr"),
        ("optimization.lr=[abc]", "lr"),
        ("model.gate_layers=[a]", "gate_layers"),
        ("model.gate_layers=[3]", "--gate-layers"),
    ],
)
def test_yaml_names(hydra, tmp_path, override, named):
    with pytest.raises((HydraException, omegaconf.errors.OmegaConfBaseException, ValueError), match=named):
        hydra(f"checkpoint.save_dir={tmp_path}", override)


def test_the_last_line_of_a_process(tmp_path):
    options = [*train_options(), "--save-dir", tmp_path, "--hidden-size", "0"]
    process = run_forked(SCRIPTS / "fairseq-train", *options)
    assert process.returncode == 1
    assert process.stderr.splitlines()[-1] == "ValueError: --hidden-size: expected an integer of at least 1, got 0"
