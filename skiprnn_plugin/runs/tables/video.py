"""Videos as frame features: UCF-101, one label per video, and Charades, several per frame.

FLOPs include the network that encodes a frame, ResNet-50 and VGG-16: a skipped frame is never encoded.
"""

from .table import SETTINGS, Column, Table, cited, full, learned, make_rows, random

UCF101 = Table(
    name="ucf101",
    title="UCF-101",
    task="feature_classification",
    condition={"sequence_length": 250},
    settings={**SETTINGS, "hidden_size": 512, "num_layers": 2, "padding": "data"},
    spread="none, one run each",
    columns=(
        Column("accuracy", "accuracy", ".3f"),
        Column("updates", "updates", ".1f"),
        Column("FLOPs", "flops", "scientific"),
    ),
    rows=make_rows(
        ("accuracy", "updates", "FLOPs"),
        (full("lstm"), ("0.671", "250.0", "9.52e11")),
        (learned("lstm", "0"), ("0.749", "138.9", "5.29e11")),
        (learned("lstm", "1e-5"), ("0.757", "24.2", "9.21e10")),
        (learned("lstm", "1e-4"), ("0.790", "7.6", "2.89e10")),
        (full("gru"), ("0.791", "250.0", "9.51e11")),
        (learned("gru", "0"), ("0.796", "124.2", "4.73e11")),
        (learned("gru", "1e-5"), ("0.792", "29.7", "1.13e11")),
        (learned("gru", "1e-4"), ("0.793", "23.7", "9.02e10")),
    ),
    cited=make_rows(("accuracy",), (cited("I3D RGB"), ("0.845",)), (cited("Two-stream I3D"), ("0.934",))),
    data={"encoder_flops": 3.8e9},  # ResNet-50
)

CHARADES = Table(
    name="charades",
    title="Charades",
    task="feature_localization",
    condition={},
    settings={
        **SETTINGS,
        "hidden_size": 256,
        "num_layers": 2,
        "criterion": "binary_cross_entropy_with_budget",
        "frame_rate": 6,
        "eval_points": 100,
        "sequence_length": None,
    },
    spread="of updates, over videos",
    columns=(
        Column("mAP", "mAP", ".2%"),
        Column("updates", "updates", ".1f", spread="updates_std"),
        Column("FLOPs", "flops", "scientific"),
    ),
    rows=make_rows(
        ("mAP", "updates", "FLOPs"),
        (full("lstm"), ("8.40%", "172.9 ± 47.4", "2.65e12")),
        (random("lstm", "0.75"), ("8.11%", "43.3 ± 13.2", "6.63e11")),
        (random("lstm", "0.90"), ("7.21%", "17.2 ± 6.1", "2.65e11")),
        (learned("lstm", "0"), ("8.32%", "172.9 ± 47.4", "2.65e12")),
        (learned("lstm", "1e-4"), ("8.61%", "172.9 ± 47.4", "2.65e12")),
        (learned("lstm", "1e-3"), ("8.32%", "41.9 ± 11.3", "6.41e11")),
        (learned("lstm", "1e-2"), ("7.86%", "17.4 ± 4.4", "2.66e11")),
        (full("gru"), ("8.70%", "172.9 ± 47.4", "2.65e12")),
        (random("gru", "0.10"), ("8.94%", "155.6 ± 42.9", "2.39e12")),
        # As printed; by the paper's own count it is 1.59e12
        (random("gru", "0.40"), ("8.81%", "103.6 ± 29.3", "1.06e12")),
        (random("gru", "0.70"), ("8.42%", "51.9 ± 15.4", "7.95e11")),
        (random("gru", "0.90"), ("7.09%", "17.3 ± 6.3", "2.65e11")),
        (learned("gru", "0"), ("8.94%", "159.9 ± 46.9", "2.45e12")),
        (learned("gru", "1e-4"), ("8.76%", "100.8 ± 28.1", "1.54e12")),
        (learned("gru", "1e-3"), ("8.68%", "54.2 ± 16.2", "8.29e11")),
        (learned("gru", "1e-2"), ("7.95%", "18.4 ± 5.1", "2.82e11")),
    ),
    data={"encoder_flops": 1.53e10},  # VGG-16
)
