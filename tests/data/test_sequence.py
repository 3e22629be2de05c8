"""Stored sequences are shuffled again in every epoch, repeatably, and batches say what is padding."""

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

import skiprnn_plugin  # noqa: F401
from skiprnn_plugin.data.sequence import StoredDataset, split_key
from skiprnn_plugin.tasks.sequence import SequenceTask, SequenceTaskConfig


class Ramps(StoredDataset):
    def read(self, index):
        return np.arange(self.sizes[index], dtype=np.float32)[:, None], index % 3


def dataset(sizes=(3, 1, 4, 1, 5, 9, 2), key=(7, 1), fixed=False):
    return Ramps(np.array(sizes), key, fixed)


def test_order_and_seeds_are_new_in_every_training_epoch_and_repeat():
    data, again = dataset(sizes=range(1, 41)), dataset(sizes=range(1, 41))
    order, seeds = data.ordered_indices().copy(), data.seeds.copy()
    assert sorted(order) == list(range(40)) and (order != range(40)).any()
    data.set_epoch(2)
    assert (data.ordered_indices() != order).any() and not (data.seeds == seeds).any()
    data.set_epoch(1)
    assert (data.ordered_indices() == order).all() and (data.seeds == again.seeds).all()


def test_a_held_out_set_stays_as_it_is():
    data = dataset(fixed=True)
    seeds = data.seeds.copy()
    data.set_epoch(5)
    assert (data.ordered_indices() == range(7)).all() and (data.seeds == seeds).all()
    assert [data[index]["target"] for index in range(7)] == [0, 1, 2, 0, 1, 2, 0]


@pytest.mark.parametrize("other", [split_key("train", 2), split_key("valid", 1)], ids=["seed", "split"])
def test_keys_tell_sets_apart(other):
    assert not (dataset(key=split_key("train", 1)).seeds == dataset(key=other).seeds).any()


def test_batch():
    data = dataset()
    batch = data.collater([data[3], data[0]])
    assert batch["id"].tolist() == [3, 0] and batch["nsentences"] == 2 and batch["ntokens"] == 4
    assert batch["net_input"]["x"].tolist() == [[[0], [0], [0]], [[0], [1], [2]]]
    assert batch["net_input"]["lengths"].tolist() == [1, 3] and batch["target"].tolist() == [0, 0]
    assert batch["net_input"]["seeds"].tolist() == data.seeds[[3, 0]].tolist()
    assert "lengths" not in data.collater([data[1], data[3]])["net_input"]  # nothing is padding
    assert data.collater([]) == {}
    assert data.num_tokens_vec(np.array([5, 0])).tolist() == [9, 3]


class RampsTask(SequenceTask):
    input_size, output_size = 1, 3

    def load_dataset(self, split, **kwargs):
        self.datasets[split] = dataset(sizes=[1] * 40, fixed=split != "train")


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_fairseq_makes_other_batches_in_every_epoch(workers):
    def batches(split):
        task = RampsTask(OmegaConf.create({**vars(SequenceTaskConfig()), "seed": 1}))
        task.load_dataset(split)
        for epoch in (1, 2):
            iterator = task.get_batch_iterator(
                task.dataset(split), max_sentences=16, num_workers=workers, epoch=epoch, seed=1
            ).next_epoch_itr(shuffle=split == "train")
            yield [torch.stack([batch["id"], batch["net_input"]["seeds"]]).tolist() for batch in iterator]

    first, second = batches("train")
    assert sorted(id for ids, _ in first for id in ids) == sorted(id for ids, _ in second for id in ids)
    together = [{frozenset(ids) for ids, _ in epoch} for epoch in (first, second)]
    assert not together[0] & together[1]
    assert list(batches("train")) == [first, second]
    held_out, again = batches("valid")
    assert held_out == again and [ids for ids, _ in held_out] == [[*range(16)], [*range(16, 32)], [*range(32, 40)]]
