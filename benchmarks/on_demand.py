"""``python -m benchmarks.on_demand``: reading videos whose frames are encoded on demand, and whose frames are all
encoded."""

import argparse
import math
import sys
from pathlib import Path
from statistics import median
from typing import Dict, List, Optional, Sequence

import numpy as np
import torch
from tqdm import tqdm

from skiprnn_plugin.arguments import UserError
from skiprnn_plugin.cli.command import as_table, run_command
from skiprnn_plugin.modules import SkipGRU
from skiprnn_plugin.prepare.frame_encoder import FrameEncoder
from skiprnn_plugin.prepare.video_reader import VideoReader

from .command import check_options
from .machine import describe_machine
from .timing import time_of_processor


def build(every: int, hidden: int, layers: int) -> SkipGRU:
    """A Skip GRU that uses every frame of this number; its gate does not depend on the frames."""
    increment = 0.5 / (every - 0.5)  # so that (every - 1) increments are at most 0.5, and one more is above it
    bias = math.log(increment / (1 - increment)) if every > 1 else 40.0
    torch.manual_seed(0)
    return SkipGRU(FrameEncoder.width, hidden, layers, gate_init="zeros", update_bias=bias).eval()


def measure(video: Path, readers: Dict[str, VideoReader], rnn: SkipGRU, rounds: int) -> List[str]:
    """A line of the table. Raises RuntimeError if both ways do not lead to the same state."""
    seconds: Dict[str, List[float]] = {name: [] for name in readers}
    states, used = {}, {}

    def predict(name: str) -> None:
        features, _ = readers[name].encode(str(video))
        _, states[name], used[name] = rnn(torch.from_numpy(features)[None])

    for _ in range(rounds):
        for name in readers:  # they take turns
            seconds[name].append(time_of_processor(lambda name=name: predict(name)))
    (one, other), (updates, others) = states.values(), used.values()
    if not torch.equal(updates, others) or not torch.allclose(one.h, other.h, atol=1e-4):
        raise RuntimeError(f"{video}: expected the same state, whether all frames are encoded or those on demand")
    count, frames = int(updates.sum()), updates.shape[1]
    times = [median(values) for values in seconds.values()]
    numbers = [f"{times[0]:.2f}", f"{times[1]:.2f}", f"{times[1] / times[0]:.1f}", f"{times[0] / times[1]:.3f}"]
    return [video.name, str(frames), str(count), *numbers, f"{count / frames:.3f}"]


def run(args: argparse.Namespace) -> str:
    check_options(args, dict.fromkeys(("threads", "every", "hidden_size", "layers", "rounds"), 1))
    torch.set_num_threads(args.threads)
    rnn = build(args.every, args.hidden_size, args.layers)
    try:
        encoder = FrameEncoder(args.weights)
    except (ImportError, ValueError) as error:
        raise UserError(str(error)) from error
    on_demand = VideoReader(encoder, args.frame_rate, np.dtype(np.float32), args.frames, rnn.stream())
    readers = {"on demand": on_demand, "all": on_demand._replace(stream=None)}
    with torch.inference_mode():
        encoder.encode(np.zeros((2, 240, 320, 3), np.uint8))  # warm-up
        rows = [measure(video, readers, rnn, args.rounds) for video in tqdm(args.videos, file=sys.stderr)]
    head = (
        f"{describe_machine('cpu')['processor']}, {args.threads} threads, torch {torch.__version__}; seconds of "
        f"processor time, median of {args.rounds} rounds\n\n"
    )
    return head + as_table(
        ["video", "frames", "used", "on demand", "all", "times as fast", "on demand / all", "used / frames"], rows
    )


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.on_demand", description=" ".join(__doc__.split(": ")[1].split())
    )
    add = parser.add_argument
    add("weights", metavar="WEIGHTS", type=Path, help="file with weights of torchvision's ResNet-50")
    add("videos", metavar="VIDEO", type=Path, nargs="+")
    add("--frame-rate", type=float, default=25.0, help="frames in a second (default: %(default)g)")
    add("--frames", type=int, help="how many frames of a video to read (default: all)")
    add("--every", type=int, default=7, help="the model uses a frame of this many (default: %(default)s)")
    add("--hidden-size", type=int, default=512, help="units of each layer (default: %(default)s)")
    add("--layers", type=int, default=2, help="layers of the model (default: %(default)s)")
    add("--rounds", type=int, default=3, help="how often each video is read (default: %(default)s)")
    add("--threads", type=int, default=1, help="number of threads (default: %(default)s)")
    return run_command("benchmarks.on_demand", run, parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
