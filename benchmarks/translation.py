"""``python -m benchmarks.translation``: how long it takes to translate long sources, beside fairseq's ``lstm``.

fairseq's beam search translates a batch of made-up sources with models that are not trained. All of them have the same
weights, two directions, and write translations of the same length; only the updates of the encoder differ. Everything
runs on the CPU. Before anything is timed, the models that update at every step must translate as fairseq's ``lstm``.
"""

import argparse
import sys
import time
from argparse import Namespace
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, Dict, List, Optional, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.lstm import LSTMModel
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor, nn
from tqdm import tqdm

from skiprnn_plugin.cli.command import as_table, run_command
from skiprnn_plugin.models.seq2seq import SkipRNNSeq2SeqConfig, SkipRNNSeq2SeqModel

from .command import begin_report, check_options, describe_origin, write_report
from .timing import time_interleaved

WORDS = 1000  # different words of each language
THEIRS = "fairseq's lstm"
SATURATED = 15.0  # a bias with which the gate updates at every step


class Translator:
    """Translates a batch by beam search, as ``fairseq-generate`` does, and times the encoder within.

    Attributes:
        encoder_seconds: the seconds that the encoder took, for each call of ``run``.
    """

    def __init__(self, model: nn.Module, dictionary: Dictionary, sources: Tensor, beam: int, target_words: int):
        self.model = model.eval()
        lengths = torch.full((len(sources),), sources.shape[1])
        self.sample = {"net_input": {"src_tokens": sources, "src_lengths": lengths}}
        # an end of sentence before this length has no chance, so that all models write as many words
        self.generator = SequenceGenerator(
            [model], dictionary, beam_size=beam, min_len=target_words, max_len_a=0, max_len_b=target_words
        )
        self.encoder_seconds: List[float] = []
        self._encode, model.encoder.forward = model.encoder.forward, self._time_encoder

    def _time_encoder(self, *arguments, **options):
        start = time.perf_counter()
        result = self._encode(*arguments, **options)
        self.encoder_seconds.append(time.perf_counter() - start)
        return result

    def run(self) -> List[List[Dict[str, Tensor]]]:
        with torch.inference_mode():
            return self.generator.generate([self.model], self.sample)

    def refresh(self) -> None:
        """Nothing; timing calls it before ``run``."""


def build_models(args: argparse.Namespace, sources: Tensor, dictionary: Dictionary) -> Dict[str, nn.Module]:
    """The models by name, all with the weights of fairseq's; the gates' biases are set for these sources."""
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    size = args.hidden_size
    sizes = {f"{side}_{name}": size for side in ("encoder", "decoder") for name in ("embed_dim", "hidden_size")}
    options = {**sizes, "decoder_out_embed_dim": size, "encoder_bidirectional": True}
    torch.manual_seed(args.seed)
    theirs = LSTMModel.build_model(Namespace(**options, criterion="cross_entropy"), task)
    # as large as those of trained models; fairseq's small initial ones would leave the gate almost constant
    nn.init.normal_(theirs.encoder.embed_tokens.weight)
    models = {THEIRS: theirs, "LSTM": _build_ours("full_lstm_seq2seq", options, task, theirs)}
    for fraction in args.fractions:
        model = models[f"Skip LSTM, {fraction:.0%}"] = _build_ours("skip_lstm_seq2seq", options, task, theirs)
        set_updates(model.eval(), sources, fraction)
    return models


def _build_ours(arch: str, options: Dict[str, Any], task, theirs: nn.Module) -> nn.Module:
    args = Namespace(**options)
    ARCH_CONFIG_REGISTRY[arch](args)
    model = SkipRNNSeq2SeqModel.build_model(SkipRNNSeq2SeqConfig(**vars(args)), task)
    model.load_state_dict(theirs.state_dict())
    return model


@torch.inference_mode()
def count_updates(model: nn.Module, sources: Tensor) -> Dict[str, float]:
    """``updates``, the fraction of the steps that a model updates, and ``entries``, that of the decoder's memory."""
    encoder, found = model.encoder, []
    handle = encoder.rnn.register_forward_hook(lambda module, arguments, result: found.append(result[2]))
    entries = (~encoder(sources).padding_mask).float().sum().item() / sources.numel()
    handle.remove()
    return {"updates": found[0].mean().item(), "entries": entries}


def set_updates(model: nn.Module, sources: Tensor, fraction: float) -> None:
    """Set the bias of both directions' gates by bisection, so that about this fraction of the steps is updated."""
    biases = [value for name, value in model.encoder.rnn.named_parameters() if name.startswith("update_bias")]
    low, high = -SATURATED, SATURATED
    for _ in range(16):
        middle = SATURATED if fraction == 1 else (low + high) / 2
        for bias in biases:
            nn.init.constant_(bias, middle)
        found = count_updates(model, sources)["updates"]
        if abs(found - fraction) <= 0.02 * fraction:
            break
        low, high = (middle, high) if found < fraction else (low, middle)


def check(translators: Dict[str, Translator], counts: Dict[str, Dict[str, float]]) -> None:
    """Translate once with each model, which is also the warm-up.

    Raises:
        RuntimeError: a model that updates at every step does not translate as fairseq's.
    """
    found = {}
    for name, translator in translators.items():
        found[name] = [best["tokens"].tolist() for best, *_ in translator.run()]
    for name, translations in found.items():
        if counts[name]["updates"] == 1 and translations != found[THEIRS]:
            raise RuntimeError(f"{name}: expected the translations of {THEIRS}, got others")


def measure(args: argparse.Namespace, steps: int) -> List[Dict[str, Any]]:
    """Time every model on sources of ``steps`` words. Returns an entry for each."""
    dictionary = Dictionary()
    for word in range(WORDS):
        dictionary.add_symbol(f"w{word}")
    generator = torch.Generator().manual_seed(args.seed)
    sources = torch.randint(dictionary.nspecial, len(dictionary), (args.batch_size, steps), generator=generator)
    sources[:, -1] = dictionary.eos()
    models = build_models(args, sources, dictionary)
    counts = {name: count_updates(model.eval(), sources) for name, model in models.items() if name != THEIRS}
    counts[THEIRS] = {"updates": 1.0, "entries": 1.0}
    translators = {
        name: Translator(model, dictionary, sources, args.beam, args.target_words) for name, model in models.items()
    }
    check(translators, counts)
    for translator in translators.values():
        translator.encoder_seconds.clear()
    times = time_interleaved(translators, args.seconds, "cpu")
    return [
        {
            "steps": steps,
            "model": name,
            **counts[name],
            "runs": len(times[name]),
            "encoder_seconds": median(translator.encoder_seconds),
            "decoder_seconds": median(
                whole - encoder for whole, encoder in zip(times[name], translator.encoder_seconds, strict=True)
            ),
            "seconds": median(times[name]),
            "times_fairseq": median(times[THEIRS]) / median(times[name]),
        }
        for name, translator in translators.items()
    ]


def as_markdown(report: Dict[str, Any]) -> str:
    machine, versions = report["machine"], report["versions"]
    rows = [
        [
            f"{entry['steps']:,}",
            entry["model"],
            f"{entry['updates']:.1%}",
            f"{entry['entries']:.1%}",
            f"{1000 * entry['encoder_seconds']:,.0f}",
            f"{1000 * entry['decoder_seconds']:,.0f}",
            f"{entry['times_fairseq']:.2f}",
        ]
        for entry in report["measurements"]
    ]
    head = ["source words", "encoder", "updates", "memory", "encoder, ms", "decoder, ms", "times as fast"]
    return (
        f"{report['batch_size']} sources, beam {report['beam']}, {report['target_words']} words of translation, "
        f"{report['hidden_size']} units in each direction; {machine['processor']} ({machine['instructions']}), "
        f"threads: {report['threads']}, torch {versions['torch']}; {describe_origin(report)}.\n"
        f"Median times of a batch; how many times as fast as {THEIRS} both together are.\n\n"
        + as_table(head, rows)
        + "\n"
    )


def run(args: argparse.Namespace) -> str:
    least = {"steps": 2, "batch_size": 1, "beam": 1, "target_words": 1, "hidden_size": 1, "threads": 1}
    check_options(args, least)
    torch.set_num_threads(args.threads)
    report = begin_report(**{name: getattr(args, name) for name in (*least, "fractions", "seconds", "seed")})
    for steps in tqdm(args.steps, unit="length", file=sys.stderr):
        report["measurements"] += measure(args, steps)
    text = as_markdown(report)
    write_report(report, args.output, text)
    return text


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.translation", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--steps", type=int, nargs="+", default=[500, 1000, 2000], help="lengths of sources (default: 500 1000 2000)")
    add("--fractions", type=float, nargs="+", default=[1, 0.5, 0.1], help="fractions of updates (default: 1 0.5 0.1)")
    add("--batch-size", type=int, default=8, help="sources in the batch (default: %(default)s)")
    add("--beam", type=int, default=5, help="beam size (default: %(default)s)")
    add("--target-words", type=int, default=20, help="words of each translation (default: %(default)s)")
    add("--hidden-size", type=int, default=128, help="units, and size of embeddings (default: %(default)s)")
    add("--seconds", type=float, default=30, help="seconds for each length (default: %(default)s)")
    add("--threads", type=int, default=1, help="number of threads (default: %(default)s)")
    add("--seed", type=int, default=0, help="seed of weights and sources (default: %(default)s)")
    add("--output", type=Path, metavar="FILE.json", help="all numbers; the table goes to FILE.md")
    return run_command("benchmarks.translation", run, parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
