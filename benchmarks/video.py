"""``python -m benchmarks.video``: how many frames of videos are decoded in a second, and then how many are encoded."""

import argparse
import itertools
import sys
import time
from pathlib import Path
from typing import Optional, Sequence

import torch
from tqdm import tqdm

from skiprnn_plugin.arguments import UserError
from skiprnn_plugin.cli.command import as_table, run_command
from skiprnn_plugin.prepare.frame_encoder import FrameEncoder
from skiprnn_plugin.prepare.video import read_frames

from .command import check_options
from .machine import describe_machine


def run(args: argparse.Namespace) -> str:
    check_options(args, {"threads": 1, "frames": 1})
    torch.set_num_threads(args.threads)
    try:
        encoder = FrameEncoder(args.weights)
        start, count, kept = time.perf_counter(), 0, []
        for video in tqdm(args.videos, unit="video", file=sys.stderr):
            for frame in read_frames(video, args.frame_rate):
                count += 1
                if len(kept) < args.frames:
                    kept.append(frame)
        decoding = count / (time.perf_counter() - start)
    except (ImportError, ValueError) as error:
        raise UserError(str(error)) from error
    encoder.encode(itertools.islice(kept, encoder.batch_size))  # warm-up
    start = time.perf_counter()
    encoder.encode(tqdm(kept, unit="frame", file=sys.stderr))
    encoding = len(kept) / (time.perf_counter() - start)
    head = f"{describe_machine('cpu')['processor']}, {args.threads} threads, torch {torch.__version__}\n\n"
    rows = [["decoding", f"{count:,}", f"{decoding:,.0f}"], ["encoding", f"{len(kept):,}", f"{encoding:,.1f}"]]
    return head + as_table(["stage", "frames", "frames per second"], rows)


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.video", description=__doc__.splitlines()[0])
    parser.add_argument("weights", metavar="WEIGHTS", type=Path, help="file with weights of torchvision's ResNet-50")
    parser.add_argument("videos", metavar="VIDEO", type=Path, nargs="+")
    parser.add_argument("--frame-rate", type=float, default=25.0, help="frames in a second (default: %(default)g)")
    parser.add_argument("--frames", type=int, default=256, help="the most frames to encode (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="number of threads (default: %(default)s)")
    return run_command("benchmarks.video", run, parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
