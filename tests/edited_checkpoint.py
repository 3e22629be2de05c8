"""Checkpoints as an earlier version would have written them."""

import torch


def change_task_state(path, change):
    """Let ``change`` edit the state of the task, a dict, in a checkpoint."""
    checkpoint = torch.load(path, weights_only=False)
    change(checkpoint["task_state"])
    torch.save(checkpoint, path)
