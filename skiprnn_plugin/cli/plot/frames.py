"""``skiprnn-plot frames``: which frames of a video a model used."""

import argparse
import math

import numpy as np

from ...arguments import UserError
from ...runs.checkpoint import load_hub
from ...runs.frames import Sheet, read_sheet
from ..loading import HUB_HELP, add_loading_arguments, add_weights_argument, prepare_loading
from .figures import DPI, WIDTH, add_output_argument, check_output, new_figure, save

HELP = "draw a video's frames and which of them a model used"
PER_ROW = 25
MOST_FRAMES = 2500  # few programs open a picture of more frames
MARGIN, BORDER = 3, 5  # pixels around a frame: first a border, red if the frame was used, then a white margin
RED = (0.84, 0.15, 0.16)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help=HUB_HELP)
    parser.add_argument("video", metavar="VIDEO", help="a video, for a model whose data skiprnn-prepare video made")
    add_output_argument(parser, "frames.png")
    parser.add_argument(
        "--num-frames",
        type=int,
        default=250,
        metavar="N",
        help="the most frames to draw, of those that the model reads the first ones (default: %(default)s)",
    )
    add_weights_argument(parser)
    add_loading_arguments(parser)


def run(args: argparse.Namespace) -> None:
    from ...prepare.video import is_video
    from ...runs.inputs import check_inputs, open_videos

    check_output(args.output)
    if not 1 <= args.num_frames <= MOST_FRAMES:
        raise UserError(f"--num-frames: expected 1 to {MOST_FRAMES}, got {args.num_frames}")
    if not is_video(args.video):
        raise UserError(f"{args.video}: expected a video, such as .avi or .mp4")
    hub = load_hub(args.checkpoint, prepare_loading(args))
    check_inputs(hub, [args.video], [])
    videos = open_videos(hub, [args.video], args.weights)
    save(draw(read_sheet(hub, videos, args.video, args.num_frames)), args.output)


def draw(sheet: Sheet):
    """A matplotlib figure with the frames in rows of ``PER_ROW``."""
    mosaic, starts = assemble(sheet), sheet.times[::PER_ROW]
    height, width, _ = mosaic.shape
    # Finer than other figures, as frames would otherwise be too small to recognise
    figure = new_figure(height=WIDTH * height / width + 0.7, dpi=2 * DPI)
    from matplotlib.patches import Patch  # after new_figure, which can import matplotlib under any MPLBACKEND

    panel = figure.subplots()
    panel.imshow(mosaic)
    panel.set_title(sheet.title, loc="left", fontsize=9)
    panel.set_yticks(
        (np.arange(len(starts)) + 0.5) * height / len(starts), [f"{round(time, 1):g} s" for time in starts]
    )
    panel.set_xticks([])
    panel.tick_params(length=0, labelsize=8)
    panel.spines[:].set_visible(False)
    keys = [Patch(facecolor="none", edgecolor=RED, label="used"), Patch(color="0.8", label="skipped")]
    figure.legend(handles=keys, loc="outside lower right", ncol=2, frameon=False, fontsize=8)
    return figure


def assemble(sheet: Sheet) -> np.ndarray:
    """One picture of all frames: used ones have a red border, skipped ones are grey and pale; RGB, uint8 [H, W, 3]."""
    count, height, width, _ = sheet.frames.shape
    rows, edge = math.ceil(count / PER_ROW), MARGIN + BORDER
    cells = np.full((rows * PER_ROW, height + 2 * edge, width + 2 * edge, 3), 255, dtype=np.uint8)
    for cell, frame, is_used in zip(cells, sheet.frames, sheet.used):
        if is_used:
            cell[MARGIN:-MARGIN, MARGIN:-MARGIN] = np.multiply(255, RED)
        else:
            frame = (255 + frame.mean(2, keepdims=True)) / 2
        cell[edge:-edge, edge:-edge] = frame
    table = cells.reshape(rows, PER_ROW, *cells.shape[1:])
    return table.swapaxes(1, 2).reshape(rows * cells.shape[1], PER_ROW * cells.shape[2], 3)
