"""``skiprnn-plot frames``: which frames of a video a model used."""

import argparse
import math

import numpy as np

from ...arguments import UserError
from ...runs.checkpoint import load_named_hub
from ...runs.frames import Sheet, read_sheet
from ..loading import HUB_HELP, add_loading_arguments, add_video_arguments, prepare_loading
from .elements import Color, add_legend, add_title, get_colors, get_width, new_figure
from .figures import add_picture_arguments, check_picture, choose_title, write_picture

HELP = "draw a video's frames and which of them a model used"
WIDTH = 0.34  # inches of a frame
MOST_FRAMES = 2500  # few programs open a picture of more frames
MARGIN, BORDER = 3, 6  # pixels around a frame: first a border, coloured if the frame was used, then a white margin


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help=HUB_HELP)
    parser.add_argument("video", metavar="VIDEO", help="a video, for a model whose data skiprnn-prepare video made")
    add_picture_arguments(parser, "frames.png")
    parser.add_argument(
        "--num-frames",
        type=int,
        default=250,
        metavar="N",
        help="the most frames to draw, of those that the model reads the first ones (default: %(default)s)",
    )
    add_video_arguments(parser)
    add_loading_arguments(parser)


def run(args: argparse.Namespace) -> None:
    from ...prepare.video import is_video
    from ...runs.inputs import check_inputs, open_videos

    look = check_picture(args)
    if not 1 <= args.num_frames <= MOST_FRAMES:
        raise UserError(f"--num-frames: expected 1 to {MOST_FRAMES}, got {args.num_frames}")
    if not is_video(args.video):
        raise UserError(f"{args.video}: expected a video, such as .avi or .mp4")
    hub = load_named_hub(args.checkpoint, prepare_loading(args))
    check_inputs(hub, [args.video], [])
    videos = open_videos(hub, [args.video], args.weights, args.encode_all)
    sheet = read_sheet(hub, videos, args.video, args.num_frames)
    write_picture(lambda: draw(sheet, choose_title(args, sheet.title)), args.output, look)


def draw(sheet: Sheet, title: str):
    """A matplotlib figure with the frames in rows, as many in a row as the width has room for."""
    per_row, used = max(round(get_width() / WIDTH), 1), get_colors().used
    mosaic, starts = assemble(sheet, per_row, used), sheet.times[::per_row]
    height, width, _ = mosaic.shape
    figure = new_figure((get_width() - 0.5) * height / width + 0.1)
    from matplotlib.patches import Patch

    panel = figure.subplots()
    panel.imshow(mosaic)
    panel.set_yticks(
        (np.arange(len(starts)) + 0.5) * height / len(starts), [f"{round(time, 1):g} s" for time in starts]
    )
    panel.set_xticks([])
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
    keys = [Patch(facecolor="0.5", edgecolor=used, linewidth=1.5), Patch(facecolor="0.8", edgecolor="none")]
    add_legend(figure, keys, ["used", "skipped"])
    add_title(figure, title)
    return figure


def assemble(sheet: Sheet, per_row: int, color: Color) -> np.ndarray:
    """One picture of all frames: used ones have a coloured border, skipped ones are grey and pale; RGB, uint8 [H, W,
    3]."""
    count, height, width, _ = sheet.frames.shape
    rows, edge = math.ceil(count / per_row), MARGIN + BORDER
    cells = np.full((rows * per_row, height + 2 * edge, width + 2 * edge, 3), 255, dtype=np.uint8)
    for cell, frame, is_used in zip(cells, sheet.frames, sheet.used):
        if is_used:
            cell[MARGIN:-MARGIN, MARGIN:-MARGIN] = np.round(np.multiply(255, color))
        else:
            frame = (255 + frame.mean(2, keepdims=True)) / 2
        cell[edge:-edge, edge:-edge] = frame
    table = cells.reshape(rows, per_row, *cells.shape[1:])
    return table.swapaxes(1, 2).reshape(rows * cells.shape[1], per_row * cells.shape[2], 3)
