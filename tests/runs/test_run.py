"""A run's options, from a configuration of fairseq."""

from skiprnn_plugin.runs.run import collect_options


def test_files_and_folders_are_reduced_to_their_names():
    cfg = {
        "model": {"_name": "skip_gru", "cell": "gru"},
        "criterion": {"_name": "cross_entropy_with_budget", "cost_per_sample": 1e-4},
        "task": {"_name": "imdb_sentiment", "data_dir": "/mine/imdb/", "embedding_path": "a/b.bin", "data": None},
        "optimizer": {"_name": "adam", "adam_eps": 1e-8},
        "optimization": {"lr": [0.01, 0.001], "clip_norm": 1.0},
        "dataset": {"batch_size": 16},
    }
    expected = {
        **{"arch": "skip_gru", "criterion": "cross_entropy_with_budget", "task": "imdb_sentiment", "optimizer": "adam"},
        **{"cell": "gru", "cost_per_sample": 1e-4, "data_dir": "imdb", "embedding_path": "b.bin", "data": None},
        **{"lr": 0.01, "clip_norm": 1.0, "batch_size": 16},
    }
    found = collect_options(cfg)
    assert {name: found[name] for name in expected} == expected
