"""Which metrics count as a solved task."""

import pytest
from fairseq.logging import metrics
from omegaconf import OmegaConf

from skiprnn_plugin.criterions.budget import BudgetCriterion
from skiprnn_plugin.tasks.adding import AddingConfig, AddingTask
from skiprnn_plugin.tasks.frequency_discrimination import FrequencyDiscriminationConfig, FrequencyDiscriminationTask
from skiprnn_plugin.tasks.sequence import SequenceTask

ADDING = (AddingTask, AddingConfig, "mse", 1 / 600)
FREQUENCY = (FrequencyDiscriminationTask, FrequencyDiscriminationConfig, "accuracy", 0.99)


@pytest.mark.parametrize(
    "kind, factor, solved",
    [
        (ADDING, 1, 1),
        (ADDING, 0.999, 1),
        (ADDING, 1.001, 0),
        (ADDING, None, 0),
        (FREQUENCY, 1, 1),
        (FREQUENCY, 1.001, 1),
        (FREQUENCY, 0.999, 0),
        (FREQUENCY, None, 0),
    ],
    ids=lambda value: value[2] if isinstance(value, tuple) else str(value),
)
def test_the_limit_itself_is_solved(monkeypatch, kind, factor, solved):
    """Which is the metric times ``factor``; None logs no such metric."""
    task_class, config, metric, limit = kind
    task = task_class(OmegaConf.create({"task": {**vars(config()), "seed": 1}}).task)
    assert task.solved_at(task.cfg) == {metric: pytest.approx(limit)}

    def log(self, logging_outputs, criterion):
        if factor is not None:
            metrics.log_scalar(metric, task.solved_at(task.cfg)[metric] * factor)

    monkeypatch.setattr(SequenceTask, "reduce_metrics", log)
    with metrics.aggregate(new_root=True) as logged:
        task.reduce_metrics([], BudgetCriterion.__new__(BudgetCriterion))
    assert logged.get_smoothed_values()["solved"] == solved
