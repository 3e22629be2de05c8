"""One training run of the comparison, in plain torch."""

import time
from typing import Any, Dict

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from skiprnn_plugin.modules import SkipGRU, SkipLSTM

from .data import Data, Sequences, batches

CELLS = {"gru": SkipGRU, "lstm": SkipLSTM}
HIDDEN = 32
EMBEDDING = 32
TRAIL = 50  # training updates between two entries of a run's trail


class Model(nn.Module):
    """Embedding, for token ids -> Skip RNN -> linear head on the last output."""

    def __init__(self, data: Data, cell: str, gate_init: str):
        super().__init__()
        width = EMBEDDING if data.tokens else data.train.x.shape[-1]
        self.embedding = nn.Embedding(data.tokens, width) if data.tokens else nn.Identity()
        self.rnn = CELLS[cell](width, HIDDEN, batch_first=True, gate_init=gate_init)
        self.head = nn.Linear(HIDDEN, data.outputs)

    def forward(self, batch: Sequences):
        """The predictions, [B, outputs], the state at the end, and the updates, [B, T]."""
        x = batch.x[:, : int(batch.lengths.max())]
        output, state, updates = self.rnn(self.embedding(x), lengths=batch.lengths, last_only=True)
        return self.head(output), state, updates


def task_loss(prediction: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy in nats, or half the squared error."""
    if prediction.shape[1] == 1:
        return 0.5 * (prediction[:, 0] - targets).square().mean()
    return cross_entropy(prediction, targets)


@torch.no_grad()
def evaluate(model: Model, sequences: Sequences) -> Dict[str, float]:
    """Accuracy, or the mean squared error; the fraction of the steps that are used; mean and standard deviation of the
    update probability at the end."""
    score, count, probabilities = 0.0, 0.0, []
    for begin in range(0, sequences.number, 250):
        batch = Sequences(*(part[begin : begin + 250] for part in sequences))
        prediction, state, updates = model(batch)
        if prediction.shape[1] == 1:
            score += float((prediction[:, 0] - batch.targets).square().sum())
        else:
            score += float((prediction.argmax(1) == batch.targets).sum())
        count += float(updates.sum())
        probabilities.append(state.p)
    probability = torch.cat(probabilities)
    return {
        "metric": score / sequences.number,
        "fraction": count / float(sequences.lengths.sum()),
        "probability": float(probability.mean()),
        "probability_std": float(probability.std()),
    }


def train(data: Data, cell: str, rule, seed: int, gate_init: str) -> Dict[str, Any]:
    """Train a model and evaluate it on the held-out sequences. The learning rate falls to 0 in the last third."""
    begin = time.process_time()
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = Model(data, cell, gate_init)
    optimizer = torch.optim.Adam(model.parameters(), data.lr)
    decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, 3 * (1 - n / data.updates)))
    trail = []
    for number, batch in zip(range(data.updates), batches(data.train, data.batch, generator)):
        prediction, _, updates = model(batch)
        count = updates.sum(1)
        loss = task_loss(prediction, batch.targets)
        optimizer.zero_grad()
        (loss + rule.cost(count, batch.lengths)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        decay.step()
        fraction = float(count.detach().sum() / batch.lengths.sum())
        rule.step(fraction, float(loss.detach()))
        if number % TRAIL == TRAIL - 1:
            trail.append(round(fraction, 3))
    result = {name: round(value, 5) for name, value in evaluate(model, data.test).items()}
    return {**result, "seconds": round(time.process_time() - begin, 1), "trail": trail}
