"""Draws docs/gate.png, the README's picture: what the gate does, beside the samples that a trained model used.

    python docs/draw_gate.py                 # draws the sequence in docs/gate.json
    python docs/draw_gate.py CHECKPOINT      # first writes docs/gate.json, by a model of frequency_discrimination

docs/gate.json has a wave that this program makes, and the samples of it that a model used. The model was trained by
`bash recipes/frequency.sh --quick` (runs/frequency-quick-1ms/skip-gru-1e-4/seed1/checkpoint_last.pt).
"""

import argparse
import json
from pathlib import Path

from skiprnn_plugin.cli.plot.elements import FAINT, SKIPPED, get_colors, mark_skipped, mark_used, new_figure
from skiprnn_plugin.cli.plot.figures import Look, write_picture

FOLDER = Path(__file__).parent
INK, HEIGHT = "#263238", 2.3  # inches
PERIOD = 77.0  # of the wave, in steps


def run_model(checkpoint):
    """A wave and which of its samples the model used, as JSON holds them."""
    import numpy as np

    from skiprnn_plugin.hub import from_pretrained

    hub = from_pretrained(checkpoint)
    wave = np.sin(2 * np.pi * np.arange(100) / PERIOD).astype(np.float32)
    return {"wave": np.round(wave.astype(float), 4).tolist(), "used": hub.used_samples([wave[:, None]])[0].tolist()}


def draw_box(axes, x, y, width, height, text, color, filled=False):
    """A rounded box around its centre, with text in it."""
    from matplotlib.patches import FancyBboxPatch

    box = FancyBboxPatch(
        (x - width / 2, y - height / 2),
        width,
        height,
        boxstyle="round,pad=0,rounding_size=0.12",
        facecolor=color if filled else "white",
        edgecolor=color,
        linewidth=1.2,
        zorder=3,
    )
    axes.add_patch(box)
    axes.text(x, y, text, ha="center", va="center", color="white" if filled else INK, linespacing=1.4, zorder=4)


def draw_arrow(axes, path, color):
    """Straight lines through the points of ``path``; the last line has a head."""
    for start, end in zip(path[:-2], path[1:-1]):
        axes.plot(*zip(start, end), color=color, linewidth=1.2, solid_capstyle="round")
    style = {"arrowstyle": "-|>", "color": color, "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 9}
    axes.annotate("", xy=path[-1], xytext=path[-2], arrowprops=style)


def draw_gate(axes):
    """One step, which updates the state by the cell or copies it."""
    updated = get_colors().used
    axes.set(xlim=(0, 10), ylim=(0.9, 6.2), aspect="equal")
    axes.axis("off")
    draw_arrow(axes, [(1.9, 3.3), (2.85, 3.3)], INK)
    draw_arrow(axes, [(3.9, 4.0), (3.9, 5.1), (5.15, 5.1)], updated)
    draw_arrow(axes, [(3.9, 2.6), (3.9, 1.5), (8.95, 1.5), (8.95, 2.75)], SKIPPED)
    draw_arrow(axes, [(7.2, 5.1), (8.95, 5.1), (8.95, 3.85)], updated)
    draw_box(axes, 1.05, 3.3, 1.7, 1.0, "state\n$s_{t-1}$", INK)
    draw_box(axes, 3.9, 3.3, 2.1, 1.4, "gate\n$u_t$ = 0 or 1", INK, filled=True)
    draw_box(axes, 6.2, 5.1, 2.0, 1.2, "LSTM or\nGRU cell", updated, filled=True)
    draw_box(axes, 8.95, 3.3, 1.7, 1.0, "state\n$s_t$", INK)
    draw_arrow(axes, [(6.2, 3.75), (6.2, 4.45)], updated)
    axes.text(6.2, 3.4, "input $x_t$", ha="center", va="center", color=INK)
    axes.text(3.7, 4.75, "$u_t$ = 1: update", ha="right", color=updated, weight="bold", fontsize=7)
    axes.text(6.4, 1.75, "$u_t$ = 0: copy, $x_t$ is not read", ha="center", color=FAINT, weight="bold", fontsize=7)


def draw_samples(axes, wave, used):
    """A sequence: used samples are filled, skipped samples are pale."""
    steps, places = range(len(wave)), 2 * len(wave)  # as in a picture of this width that has no second panel
    axes.vlines([step for step in steps if used[step]], -1.45, -1.2, color=get_colors().used, linewidth=1.1)
    for kept, style, label in ((False, mark_skipped(places), "skipped"), (True, mark_used(places), "used")):
        chosen = [step for step in steps if used[step] == kept]
        axes.plot(chosen, [wave[step] for step in chosen], label=f"{label} ({len(chosen)})", **style)
    axes.set(xlim=(-2, len(wave) + 1), ylim=(-1.5, 1.75), yticks=[], xlabel="step")
    axes.spines["left"].set_visible(False)
    axes.legend(loc="upper right", ncols=2, handletextpad=0.2)


def draw(wave, used):
    figure = new_figure(HEIGHT)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
    draw_gate(left)
    left.set_title("At each step the gate updates the state or copies it", color=INK, fontsize=8)
    draw_samples(right, wave, used)
    right.set_title("What a trained Skip GRU used of a wave", color=INK, fontsize=8)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", nargs="?", metavar="CHECKPOINT", help="the model for a new docs/gate.json")
    checkpoint, path = parser.parse_args().checkpoint, FOLDER / "gate.json"
    if checkpoint is not None:
        path.write_text(json.dumps(run_model(checkpoint)) + "\n")
    sequence = json.loads(path.read_text())
    write_picture(lambda: draw(sequence["wave"], sequence["used"]), FOLDER / "gate.png", Look())


if __name__ == "__main__":
    main()
