"""Read any part of a run's configuration, also those that fairseq keeps as an ``argparse.Namespace``.

fairseq has two kinds of parts. What is registered with a dataclass has a node of omegaconf that holds its own options.
What is configured by ``add_args`` alone, such as ``--optimizer sgd`` or a user's own model, has a Namespace that holds
every option of the run. Needed until fairseq configures everything by dataclasses. This module needs neither fairseq
nor omegaconf.
"""

from argparse import Namespace
from typing import Any, Dict, Mapping

# Parts whose options are no flags of fairseq-train, so that a model of a user's own may have options of the same names
_OF_OTHER_COMMANDS = ("generation", "eval_lm", "interactive")


def read_run(part) -> Mapping[str, Any]:
    """The configuration of the run that a part belongs to; empty if it belongs to none, or is no node of omegaconf.

    A part that belongs to no run is its own root, of which omegaconf 2.0 refuses to get what is not an option.
    """
    root = part._get_root() if hasattr(part, "_get_root") else part
    return {} if root is part else root


def read_options(part) -> Dict[str, Any]:
    """The options of a part by name, of a Namespace those of the whole run; none of what has no options."""
    if isinstance(part, Namespace):
        return dict(vars(part))
    return dict(part) if isinstance(part, Mapping) else {}  # "bpe" may be a name alone, or None


def read_own_options(cfg: Mapping[str, Any], name: str) -> Dict[str, Any]:
    """The options of the part ``name`` of a run's configuration, of a Namespace without those of other parts; none if
    there is no such part.

    Options of two parts that are both Namespaces cannot be told apart, and so belong to both.
    """
    options = read_options(cfg.get(name))
    if not isinstance(cfg.get(name), Namespace):
        return options
    others = {*cfg, "arch", "no_seed_provided"}
    for other in cfg:  # the method items of omegaconf 2.0 does not take a Namespace
        if other not in _OF_OTHER_COMMANDS and isinstance(cfg[other], Mapping):
            others.update(cfg[other])
    return {option: value for option, value in options.items() if option not in others}
