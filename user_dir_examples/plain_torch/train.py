"""Trains a Skip GRU on the adding task in plain torch: python train.py [UPDATES]. Prints the MSE and samples used."""

import argparse

import torch
from torch import nn

from skiprnn_plugin.modules import SkipGRU


def batch(size, steps=50):
    """Values and markers, [size, steps, 2], and the sum of the two marked values, [size, 1]."""
    x = torch.stack([torch.rand(size, steps) - 0.5, torch.zeros(size, steps)], -1)
    first, second = torch.randint(steps // 10, (size,)), torch.randint(steps // 2, steps, (size,))
    x[torch.arange(size), first, 1] = x[torch.arange(size), second, 1] = 1
    return x, (x[..., 0] * x[..., 1]).sum(1, keepdim=True)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("updates", nargs="?", type=int, default=2000, help="training updates (default: 2000)")
args = parser.parse_args()

torch.manual_seed(1)
rnn, head = SkipGRU(2, 110), nn.Linear(110, 1)
parameters = [*rnn.parameters(), *head.parameters()]
optimizer = torch.optim.Adam(parameters, lr=1e-3)
for update in range(1, args.updates + 1):
    x, target = batch(256)
    last, state, updates = rnn(x, last_only=True)  # updates: [256, 50], 1 where a sample was used
    error = (head(last) - target).square().mean()
    loss = 0.5 * error + 1e-5 * updates.sum(-1).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    if update % 100 == 0:
        print(f"update {update}: MSE {error:.5f}, used {updates.mean():.0%} of the samples")
