"""Draws docs/gate.png, the README's picture: what the gate does, beside the samples that a trained model used.

    python docs/draw_gate.py                 # draws the sequence in docs/gate.json
    python docs/draw_gate.py CHECKPOINT      # first writes docs/gate.json, by a model of frequency_discrimination

docs/gate.json has a wave that this program makes, and the samples of it that a model used. The model was trained by
`bash recipes/frequency.sh --quick` (runs/frequency-quick-1ms/skip-gru-1e-4/seed1/checkpoint_last.pt).
"""

import json
import os
import sys
from pathlib import Path

os.environ["MPLBACKEND"] = "agg"  # needs no display; read when matplotlib is imported
from matplotlib import pyplot as plt
from matplotlib.patches import FancyBboxPatch

FOLDER = Path(__file__).parent
UPDATED, COPIED, INK = "#00796b", "#b0bec5", "#263238"
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
    box = FancyBboxPatch(
        (x - width / 2, y - height / 2),
        width,
        height,
        boxstyle="round,pad=0,rounding_size=0.12",
        facecolor=color if filled else "white",
        edgecolor=color,
        linewidth=1.8,
        zorder=3,
    )
    axes.add_patch(box)
    axes.text(
        x, y, text, ha="center", va="center", color="white" if filled else INK, fontsize=10, linespacing=1.4, zorder=4
    )


def draw_arrow(axes, path, color):
    """Straight lines through the points of ``path``; the last line has a head."""
    for start, end in zip(path[:-2], path[1:-1]):
        axes.plot(*zip(start, end), color=color, linewidth=1.8, solid_capstyle="round")
    style = {"arrowstyle": "-|>", "color": color, "linewidth": 1.8, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 13}
    axes.annotate("", xy=path[-1], xytext=path[-2], arrowprops=style)


def draw_gate(axes):
    """One step, which updates the state by the cell or copies it."""
    axes.set(xlim=(0, 10), ylim=(0.9, 6.2), aspect="equal")
    axes.axis("off")
    draw_arrow(axes, [(1.9, 3.3), (2.85, 3.3)], INK)
    draw_arrow(axes, [(3.9, 4.0), (3.9, 5.1), (5.15, 5.1)], UPDATED)
    draw_arrow(axes, [(3.9, 2.6), (3.9, 1.5), (8.95, 1.5), (8.95, 2.75)], COPIED)
    draw_arrow(axes, [(7.2, 5.1), (8.95, 5.1), (8.95, 3.85)], UPDATED)
    draw_box(axes, 1.05, 3.3, 1.7, 1.0, "state\n$s_{t-1}$", INK)
    draw_box(axes, 3.9, 3.3, 2.1, 1.4, "gate\n$u_t$ = 0 or 1", INK, filled=True)
    draw_box(axes, 6.2, 5.1, 2.0, 1.2, "LSTM or\nGRU cell", UPDATED, filled=True)
    draw_box(axes, 8.95, 3.3, 1.7, 1.0, "state\n$s_t$", INK)
    draw_arrow(axes, [(6.2, 3.75), (6.2, 4.45)], UPDATED)
    axes.text(6.2, 3.4, "input $x_t$", ha="center", va="center", color=INK, fontsize=10)
    axes.text(3.7, 4.75, "$u_t$ = 1: update", ha="right", color=UPDATED, fontsize=10, weight="bold")
    axes.text(6.4, 1.75, "$u_t$ = 0: copy, $x_t$ is not read", ha="center", color="#607d8b", fontsize=10, weight="bold")


def draw_samples(axes, wave, used):
    """A sequence: used samples are filled, skipped samples are pale."""
    steps = range(len(wave))
    axes.vlines([step for step in steps if used[step]], -1.45, -1.2, color=UPDATED, linewidth=1.6)
    for kept, color, size, label in ((False, COPIED, 14, "skipped"), (True, UPDATED, 24, "used")):
        chosen = [step for step in steps if used[step] == kept]
        style = {"facecolor": color if kept else "white", "edgecolor": color, "zorder": 3}
        axes.scatter(chosen, [wave[step] for step in chosen], s=size, label=f"{label} ({len(chosen)})", **style)
    axes.set(xlim=(-2, len(wave) + 1), ylim=(-1.5, 1.75), yticks=[], xlabel="step")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.legend(loc="upper right", ncols=2, frameon=False, fontsize=10, handletextpad=0.2)


def main():
    path = FOLDER / "gate.json"
    if len(sys.argv) > 1:
        path.write_text(json.dumps(run_model(sys.argv[1])) + "\n")
    sequence = json.loads(path.read_text())
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), width_ratios=(1, 1.15), layout="constrained")
    draw_gate(left)
    left.set_title("At each step the gate updates the state or copies it", fontsize=11, color=INK)
    draw_samples(right, sequence["wave"], sequence["used"])
    right.set_title("What a trained Skip GRU used of a wave", fontsize=11, color=INK)
    figure.savefig(FOLDER / "gate.png", dpi=150, facecolor="white", metadata={"Software": None})


if __name__ == "__main__":
    main()
