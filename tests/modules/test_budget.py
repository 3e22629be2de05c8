"""``modules.Budget``: the rule that brings the samples used to a target, by numbers, with a toy gate and a real one."""

import copy
import functools
import math
import warnings

import numpy as np
import pytest
import torch

from benchmarks.budget.rules import Controller
from skiprnn_plugin.modules import Budget, SkipGRU
from skiprnn_plugin.parameters import read_params

STEPS = 20


def run(budget, fractions, losses):
    """The price before every training update."""
    prices = []
    for fraction, loss in zip(fractions, losses):
        prices.append(budget.price())
        budget.step(fraction, loss)
    return prices


def allowed(budget):
    return budget.rule.target_fraction ** budget.get_extra_state()["progress"]


def learned(updates=200, first=1.0):
    """A task loss that stays at ``first`` for 60 updates, and then falls to a tenth."""
    return [first] * 60 + [first * max(0.97**n, 0.1) for n in range(updates - 60)]


@functools.cache
def learned_state():
    budget = Budget(0.25)
    run(budget, [1.0] * 500, learned(500))
    return budget.rule.state_dict()


def learned_budget(**changes):
    """After 500 updates, with every step used."""
    budget = Budget(0.25)
    budget.rule.load_state_dict({**learned_state(), **changes})
    return budget


def test_costs_nothing_until_the_task_begins_to_be_learned():
    budget = Budget(0.25)
    assert float(budget(torch.ones(2, 5), task_loss=1.0)) == 0
    assert run(budget, [1.0] * 500, [1.0] * 500) == [0.0] * 500
    assert float(budget(torch.ones(2, 5), task_loss=1.0)) == 0
    prices = run(Budget(0.25), [1.0] * 200, learned())
    assert prices[60] == 0 < prices[120] < prices[199]


def test_costs_nothing_in_the_first_50_updates():
    """However fast the task is learned."""
    prices = run(Budget(0.25), [1.0] * 60, [1.0] * 20 + [0.1] * 40)
    assert prices[50] == 0 < prices[51]


def test_begins_in_the_end_with_a_task_that_was_learned_before():
    prices = run(Budget(0.25, ramp_updates=50), [1.0] * 400, [1.0] * 400)
    assert prices[250] == 0 < prices[255]


def test_the_allowed_fraction_falls_to_the_target_with_the_gate_and_waits_for_it():
    budget, other, fraction = Budget(0.25, 100), Budget(0.25, 100), 1.0
    for loss in learned(400):
        budget.step(fraction, loss)
        fraction = allowed(budget)
        other.step(1.0, loss)
    assert allowed(budget) == 0.25
    assert 0.7 < allowed(other) < 0.9


@pytest.mark.parametrize("loss,low,high", [(0.1, 0, 0.3), (0.2, 0.3, 0.8), (0.7, 0.9, 1)], ids=str)
def test_the_allowed_fraction_falls_fast_slowly_or_not_at_all(loss, low, high):
    """A loss that holds against its best of 0.1, one that does not, and one nearer to the first."""
    budget = Budget(0.25, 100)
    for update, value in enumerate(learned(150) + [0.1] * 50 + [loss] * 100):
        if update == 200:  # as if the ramp were at its beginning
            budget.rule.load_state_dict({**budget.rule.state_dict(), "progress": 0.01})
        budget.step(allowed(budget), value)
    assert low <= allowed(budget) <= high


@pytest.mark.parametrize(
    "changes, progress, log_price",
    [
        ({"best": 0.1, "task_loss": 0.3}, 0.25, 0.25),
        ({"best": 0.001, "task_loss": 0.02}, 1, 1),  # differs from its best by less than 3% of the first
        ({"best": 0.95, "task_loss": 1.0}, 1, 1),  # nearer to the first than to the best, but not by a tenth of it
        ({"best": 0.1, "task_loss": 0.9}, -1, None),
    ],
    ids=["does not hold", "holds", "not lost", "lost"],
)
def test_the_pace_of_one_update(changes, progress, log_price):
    """In parts of the full pace, that of the allowed fraction and that of the price. A lost task lowers the price by a
    hundredth."""
    budget = learned_budget(first=1.0, progress=0.5, log_price=0.0, fraction=0.51, **changes)
    budget.step(0.51, changes["task_loss"])
    state = budget.rule.state
    error = math.log(0.51) - state["progress"] * math.log(0.25)
    assert (state["progress"] - 0.5) * 600 == pytest.approx(progress)
    expected = -0.01 if log_price is None else 0.03 * error * log_price
    assert state["log_price"] == pytest.approx(expected, rel=1e-6)


def test_the_price_rises_above_the_target_and_falls_below_it_within_bounds():
    above, below = (learned_budget(progress=1.0, log_price=0.0, fraction=0.25) for _ in range(2))
    at_target = above.price()
    run(above, [0.3] * 200, [0.1] * 200)
    run(below, [0.21] * 200, [0.1] * 200)
    assert below.price() < at_target < above.price()
    highest = learned_budget(progress=1.0, log_price=3.6, fraction=0.25)
    run(highest, [0.5] * 100, [0.1] * 100)
    assert highest.price() == pytest.approx(2 * 2.0)  # the highest base price, doubled


@pytest.mark.parametrize("fraction,change", [(0.26, 0.118), (0.3, 0.547), (1.0, 0.75)])
def test_the_price_follows_the_error_at_a_limited_rate(fraction, change):
    """In 100 training updates its logarithm rises by 3 times the error, and by 0.75 at most."""
    budget = learned_budget(progress=1.0, log_price=0.0, fraction=fraction, task_loss=0.1, best=0.1)
    run(budget, [fraction] * 100, [0.1] * 100)
    assert budget.rule.state["log_price"] == pytest.approx(change, rel=0.05)


@pytest.mark.parametrize("smoothed,batch,sign", [(1, 1, 1), (0.98, 1.5, 1), (0.9, 1, -1), (1, 0.9, -1), (1.5, 0.5, -1)])
def test_updates_are_rewarded_a_tenth_below_the_target(smoothed, batch, sign):
    """Whether the smoothed fraction or that of this batch is below it, both given here as parts of the target."""
    budget = learned_budget(progress=1.0, log_price=-4.0, fraction=smoothed * 0.25)
    cost = budget.cost(torch.tensor([batch * 0.2, batch * 0.3]))
    assert cost.sign().tolist() == [sign, sign]


def test_the_reward_is_limited():
    """To ten times a tenth of the first task loss."""
    budget = learned_budget(progress=1.0, fraction=1e-4, first=0.5)
    assert float(budget.cost(torch.tensor(1e-4))) == pytest.approx(-1e-4 * 0.1 * 10 * 0.5, rel=1e-4)


def test_the_fraction_of_a_batch_lowers_the_price_and_never_raises_it():
    budget = learned_budget(progress=1.0, log_price=0.0, fraction=0.25)
    price = budget.price()
    costs = [float(budget.cost(torch.tensor(fraction))) / fraction for fraction in (0.24, 0.25, 0.9)]
    assert costs == pytest.approx([price * (1 + 3 * math.log(0.96)), price, price])


def test_the_best_loss_is_forgotten_over_a_ramp():
    fast, slow = Budget(0.25, 100), Budget(0.25, 1000)
    for budget in (fast, slow):
        run(budget, [1.0] * 600, learned(300) + [0.5] * 300)
    assert fast.rule.state["best"] > 0.45 and slow.rule.state["best"] < 0.25


def test_a_lost_task_lowers_the_price():
    budget = learned_budget(progress=1.0, fraction=0.25)
    prices = run(budget, [0.25] * 60, [1.0] * 60)
    assert prices[59] < prices[0] / 2


@pytest.mark.parametrize("scale", [1e-3, 50.0])
def test_prices_are_relative_to_the_task_loss(scale):
    fractions = [max(1 - n / 1000, 0.4) for n in range(800)]
    losses = learned(800)
    expected = run(Budget(0.25), fractions, losses)
    scaled = run(Budget(0.25), fractions, [scale * loss for loss in losses])
    assert scaled == pytest.approx([scale * price for price in expected], rel=1e-6) and max(expected) > 0


def test_a_task_loss_below_0():
    """As a likelihood of numbers can have."""
    assert run(Budget(0.25), [1.0] * 200, [-1.0] * 200) == [0.0] * 200
    assert run(Budget(0.25), [1.0] * 400, [-1 - min(max(n - 60, 0) / 100, 0.9) for n in range(400)])[-1] > 0
    assert float(learned_budget(progress=1.0, fraction=0.01, first=-1.0).cost(torch.tensor(0.01))) < 0


def test_resumes_exactly():
    fractions, losses = [max(1 - n / 500, 0.3) for n in range(600)], learned(600)
    whole, first, second = Budget(0.25), Budget(0.25), Budget(0.25)
    expected = run(whole, fractions, losses)
    assert run(first, fractions[:377], losses[:377]) == expected[:377]
    second.load_state_dict(saved := first.state_dict())
    third = copy.deepcopy(first)
    assert run(third, fractions[377:], losses[377:]) == expected[377:]
    assert run(second, fractions[377:], losses[377:]) == expected[377:]
    assert second.state_dict() == whole.state_dict()
    assert saved == first.state_dict()  # it was not changed by what was loaded from it


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_update_that_is_not_finite_is_left_out(bad):
    budget, other = learned_budget(), learned_budget()
    budget.step(0.5, bad)
    budget.step(bad, 0.1)
    for same in (budget, other):
        same.step(0.5, 0.1)
    assert budget.price() == other.price() > 0


@pytest.mark.parametrize("directions", [1, 2])
def test_reads_a_batch(directions):
    """By hand: the mean over sequences of price times fraction; the rule gets the fraction of all real steps."""
    updates = torch.tensor([[1.0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 0, 0]], dtype=torch.float64)
    updates = (updates if directions == 1 else torch.stack([updates, updates])).requires_grad_()
    budget, other = learned_budget(progress=0.4, fraction=0.6), learned_budget(progress=0.4, fraction=0.6)
    other.step(6 / 9, 0.125)
    cost = budget(updates, [4, 3, 2], task_loss=torch.tensor(0.125))
    price = learned_budget(progress=0.4, fraction=0.6).price()
    assert float(cost.detach()) == pytest.approx(price * (3 / 4 + 2 / 3 + 1 / 2) / 3)
    assert budget.price() == pytest.approx(other.price())
    cost.backward()
    expected = price / 3 / directions / torch.tensor([4.0, 3, 2], dtype=torch.float64)
    torch.testing.assert_close(updates.grad, expected.unsqueeze(1).expand_as(updates))


@pytest.mark.parametrize("shape", [(0, 5), (2, 0)], ids=["sequences", "steps"])
def test_an_empty_batch_costs_nothing(shape):
    budget, updates = Budget(0.25), torch.zeros(shape, requires_grad=True)
    budget.rule.load_state_dict(learned_state())
    before = budget.rule.state_dict()
    cost = budget(updates, task_loss=torch.tensor(0.0))
    cost.backward()
    after = {**budget.rule.state_dict(), "num_updates": before["num_updates"]}
    assert cost == 0 and after == before


def test_compiled_training_compiles_once():
    """Though the rule's numbers change in every training update."""
    torch.manual_seed(0)
    rnn, budget, x = SkipGRU(3, 4, engine="indexed"), Budget(0.25), torch.randn(4, 6, 3)

    def compute(budget):
        output, _, updates = rnn(x)
        task_loss = output.square().mean()
        return task_loss + budget(updates, task_loss=task_loss) + 0 * budget.cost(updates.mean(1)).mean()

    expected, compiled = Budget(0.25), torch.compile(compute, backend="aot_eager")
    torch.compiler.reset()
    for place in range(60):
        with torch._dynamo.config.patch(error_on_recompile=place > 0):
            cost = compiled(budget)
        assert cost == compute(expected), place
    assert budget.rule.state_dict() == expected.rule.state_dict()


def test_evaluation_changes_nothing():
    budget = learned_budget().eval()
    state = budget.state_dict()
    assert float(budget(torch.ones(2, 5), task_loss=9.0)) > 0
    assert budget.state_dict() == state


def test_half_precision_leaves_it_exact():
    assert learned_budget().half().state_dict() == learned_budget().state_dict()
    updates = torch.zeros(2, 8, dtype=torch.float16, requires_grad=True)
    closed_budget()(updates, task_loss=0.1).backward()
    assert updates.grad.isfinite().all() and (updates.grad < 0).all()


@pytest.mark.parametrize(
    "options,message",
    [
        ({"target_fraction": 1.0}, "target_fraction: .* got 1.0"),
        ({"target_fraction": math.nan}, "target_fraction: .* got nan"),
        ({"target_fraction": 0.5, "ramp_updates": 0}, "ramp_updates: .* got 0"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        Budget(**options)


@pytest.mark.parametrize(
    "updates,lengths,task_loss,message",
    [
        (torch.ones(3), None, 1.0, r"updates: expected a tensor \[B, T\]"),
        (torch.ones(3, 4), [4, 4], 1.0, r"lengths: expected \[3\], got \(2,\)"),
        (torch.ones(3, 4), None, torch.ones(3), r"task_loss: expected the mean over the batch, .* got \(3,\)"),
    ],
)
def test_bad_batches(updates, lengths, task_loss, message):
    with pytest.raises(ValueError, match=message):
        Budget(0.5)(updates, lengths, task_loss=task_loss)


def closed_budget():
    """After the ramp, when the gate has closed."""
    return learned_budget(progress=1.0, fraction=0.01, log_price=0.0)


def test_warns_once_of_a_closed_gate_and_of_a_missed_target():
    closed, missed, good = Budget(0.25), Budget(0.25), Budget(0.25)
    with pytest.warns(UserWarning, match="0.5% of the samples are used, where 25.0% .*not learned.*zeros") as caught:
        run(closed, [0.005] * 500, [1.0] * 500)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(missed, [1.0] * 500, [1.0] * 500)
        run(good, [0.24] * 500, [1.0] * 500)
        run(Budget(0.25, ramp_updates=50), [1.0] * 600, [1.0] * 600)  # a short ramp is no reason to warn early
        run(Budget(0.01), [0.015] * 500, [1.0] * 500)  # few samples, but more than are wanted
        good.warn_if_missed()
        closed.warn_if_missed()
    with pytest.warns(UserWarning, match="100.0% of the samples.*has not fallen by 20% yet") as caught:
        missed.warn_if_missed()
        missed.warn_if_missed()
    assert len(caught) == 1


def train_toy_gate(rule, bias):
    """The fractions of a gate with one probability for all steps, which starts at sigmoid(bias).

    The task needs a tenth of the steps. Its loss has no gradient, so only the rule moves the gate."""
    rnn = SkipGRU(1, 1, batch_first=True, update_bias=bias, gate_init="zeros")
    optimizer = torch.optim.Adam([rnn.update_bias], 0.05)
    x, loss, fractions = torch.zeros(1, STEPS, 1), 1.0, []
    for update in range(700):
        _, _, decisions = rnn(x)
        optimizer.zero_grad()
        rule.cost(decisions.sum(1), torch.tensor([STEPS])).backward()
        optimizer.step()
        fractions.append(float(decisions.detach().mean()))
        loss += 0.05 * ((0.05 if fractions[-1] >= 0.1 and update > 60 else 1.0) - loss)
        rule.step(fractions[-1], loss)
    return fractions


class Rule:
    def __init__(self, budget):
        self.budget = budget
        self.step = budget.step

    def cost(self, count, lengths):
        return self.budget.cost(count / lengths).mean()


@pytest.mark.parametrize("bias", [1.0, -12.0], ids=["open", "closed"])
def test_a_toy_gate_reaches_the_target(bias):
    fractions = train_toy_gate(Rule(Budget(0.25, ramp_updates=200)), bias)
    assert sum(fractions[-100:]) / 100 == pytest.approx(0.25, rel=0.2)
    assert min(fractions[-400:]) > 0.1


@pytest.mark.parametrize("bias,reached", [(1.0, 0.15), (-12.0, 1 / STEPS)], ids=["open", "closed"])
def test_a_controller_of_lambda_alone_does_not_open_the_toy_gate(bias, reached):
    assert train_toy_gate(Controller(0.25), bias)[-100:] == pytest.approx([reached] * 100)


def test_a_closed_gate_opens_again():
    """Its probability is 6e-6, where the sigmoid is flat."""
    torch.manual_seed(0)
    rnn = SkipGRU(2, 4, batch_first=True, update_bias=-12.0, gate_init="zeros")
    budget, optimizer = closed_budget(), torch.optim.Adam(rnn.parameters(), 0.1)
    fractions = []
    for _ in range(150):
        updates = rnn(torch.randn(3, STEPS, 2))[2]
        optimizer.zero_grad()
        budget(updates, task_loss=0.1).backward()
        optimizer.step()
        fractions.append(float(updates.detach().mean()))
    assert fractions[0] == pytest.approx(1 / STEPS) and max(fractions) > 0.2


def test_numbers_of_numpy():
    """As a search over an array of numpy gives."""
    budget = Budget(np.float32(0.25), np.int64(100))
    assert (budget.rule.target_fraction, budget.rule.ramp_updates) == (0.25, 100)
    assert read_params({"normalize": np.True_, "target_fraction": np.float32(0.5)}, None) == {
        "normalize": True,
        "target_fraction": 0.5,
    }
