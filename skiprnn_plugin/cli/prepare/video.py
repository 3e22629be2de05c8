"""``skiprnn-prepare video``: features of videos' frames, as ``feature_classification`` and ``feature_localization``
read them."""

import argparse
import math
from pathlib import Path

from ...arguments import UserError
from .feature_folder import add_folder_arguments, write_folder

HELP = "encode the frames of videos (UCF-101, or a folder of your own) by ResNet-50"
SOURCE_HELP = """
a folder of videos with manifest.tsv, whose columns are sequence (a video's path in the folder), split (train, valid or
any other) and label, or annotations and duration; or, with --splits, UCF-101
"""
WEIGHTS_HELP = "the weights of ResNet-50, as torchvision publishes them for ImageNet (resnet50-0676ba61.pth)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", type=Path, help=SOURCE_HELP)
    add_folder_arguments(parser)
    parser.add_argument("--weights", type=Path, metavar="FILE", required=True, help=WEIGHTS_HELP)
    parser.add_argument(
        "--frame-rate", type=float, default=25.0, metavar="R", help="frames per second (default: %(default)g)"
    )
    parser.add_argument(
        "--splits",
        type=Path,
        metavar="DIR",
        help="ucfTrainTestlist; its training list becomes the split train, its test list the split valid; listed "
        "videos that do not exist are left out",
    )
    parser.add_argument("--split-number", type=int, metavar="N", help="which of its splits (default: 1)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: %(default)s)")
    parser.add_argument(
        "--batch-size", type=int, default=32, metavar="N", help="frames to encode at once (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> str:
    from ...arguments import as_option_errors
    from ...prepare.frame_encoder import FrameEncoder
    from ...prepare.video_features import encode_videos
    from ...prepare.video_sources import check_readable

    if not 0 < args.frame_rate < math.inf:
        raise UserError(f"--frame-rate: expected a number above 0, got {args.frame_rate:g}")
    try:
        videos, options = _read_source(args)
        check_readable(videos, args.frame_rate)  # now, and not after hours of encoding other splits
        with as_option_errors({"device", "batch_size"}):
            encoder = FrameEncoder(args.weights, args.device, args.batch_size)
    except (ValueError, ImportError) as error:
        raise UserError(str(error)) from error

    source = encode_videos(args.source, videos, args.frame_rate, encoder)
    options = {"frame_rate": args.frame_rate, **encoder.description, **options, "missing": len(videos.missing)}
    summary = write_folder(source, args, options)
    if videos.missing:
        summary += f"; {len(videos.missing):,} that are listed do not exist, such as {videos.missing[0]}"
    return summary


def _read_source(args: argparse.Namespace):
    """The videos, and the options for the record."""
    from ...prepare.video_sources import read_listed, read_ucf101

    if not args.source.is_dir():
        raise UserError(f"{args.source}: no such folder")
    if args.splits is None:
        if args.split_number is not None:
            raise UserError("--split-number: is only for --splits")
        return read_listed(args.source), {}
    number = 1 if args.split_number is None else args.split_number
    if number < 1:
        raise UserError(f"--split-number: expected 1, 2 or 3, got {number}")
    return read_ucf101(args.source, args.splits, number), {"split_number": number}
