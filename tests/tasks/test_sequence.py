"""A user's own task on ``SequenceTask``, with an ordinary fairseq dataset."""

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from skiprnn_plugin.criterions.budget import BudgetConfig
from skiprnn_plugin.criterions.cross_entropy_with_budget import CrossEntropyWithBudgetCriterion
from skiprnn_plugin.criterions.with_budget import WithBudgetConfig
from skiprnn_plugin.models.skip_rnn import SkipRNNConfig, SkipRNNModel
from skiprnn_plugin.modules import SkipGRU
from skiprnn_plugin.predictions import CRITERIONS
from skiprnn_plugin.tasks.sequence import SequenceTask, SequenceTaskConfig

from ..idx_files import write_digits
from ..tiny_features import write_features
from ..tiny_localization import write_localization
from ..tiny_texts import write_texts

from fairseq.criterions.cross_entropy import CrossEntropyCriterion  # isort: skip
from fairseq.data import FairseqDataset  # isort: skip
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY, FairseqTask  # isort: skip


class Letters(FairseqDataset):
    """Sequences of different lengths in batches of x, lengths and target, as docs/extending.md describes."""

    def __init__(self, size):
        rng = np.random.default_rng(0)
        self.sequences = [torch.from_numpy(rng.normal(size=(1 + i % 5, 3))).float() for i in range(size)]

    def __getitem__(self, index):
        return index

    def __len__(self):
        return len(self.sequences)

    def num_tokens(self, index):
        return len(self.sequences[index])

    size = num_tokens

    def collater(self, indices):
        chosen = [self.sequences[index] for index in indices]
        lengths = torch.tensor([len(sequence) for sequence in chosen])
        x = torch.nn.utils.rnn.pad_sequence(chosen, batch_first=True)
        return {"id": torch.tensor(indices), "net_input": {"x": x, "lengths": lengths}, "target": lengths % 2}


class LettersTask(SequenceTask):
    input_size = 3
    output_size = 2

    def load_dataset(self, split, **kwargs):
        self.datasets[split] = Letters(37)


@pytest.fixture
def task():
    task = LettersTask(OmegaConf.create({**vars(SequenceTaskConfig()), "seed": 1}))
    task.load_dataset("valid")
    return task


@pytest.mark.parametrize("options", [{"max_sentences": 16}, {"max_tokens": 40}], ids=str)
def test_every_sequence_is_in_a_batch_at_default_flags(task, options):
    """fairseq's default multiple of 8 would leave 5 of the 37 out."""
    iterator = task.get_batch_iterator(task.dataset("valid"), required_batch_size_multiple=8, **options)
    batches = [batch["id"].tolist() for batch in iterator.next_epoch_itr(shuffle=False)]
    assert sorted(index for batch in batches for index in batch) == list(range(37))
    assert max(map(len, batches)) > 1


def test_its_batches_are_all_that_the_criterion_needs(task):
    model = SkipRNNModel.build_model(SkipRNNConfig(hidden_size=4), task)
    criterion = CrossEntropyWithBudgetCriterion.build_criterion(BudgetConfig(cost_per_sample=0.1), task)
    sample = task.dataset("valid").collater(list(range(7)))
    loss, size, log = task.valid_step(sample, model, criterion)
    assert size == 7 and log["ntokens"] == log["steps"] == sample["net_input"]["lengths"].sum()
    assert loss.isfinite() and log["updates"] <= log["steps"]


@pytest.mark.parametrize(
    "predicts,fitting", [("numbers", "mse_with_budget"), ("labels", "binary_cross_entropy_with_budget")]
)
def test_a_criterion_for_classes_where_there_are_none(task, predicts, fitting):
    """fairseq's default criterion asks for class probabilities whatever the task predicts."""
    task.predicts = predicts
    model = SkipRNNModel.build_model(SkipRNNConfig(hidden_size=4), task)
    sample = task.dataset("valid").collater(list(range(7)))
    message = f"^--criterion: the task predicts {predicts}, expected {fitting}, got one that asks for probabilities of"
    with pytest.raises(ValueError, match=message):
        task.valid_step(sample, model, CrossEntropyCriterion(task, sentence_avg=True))


@pytest.mark.parametrize("predicts", ["numbers", "labels"])
@pytest.mark.parametrize("base", ["cross_entropy", "label_smoothed_cross_entropy"])
def test_fairseqs_criterions_for_classes_are_refused_when_they_are_built(task, predicts, base):
    """Alone, and as what ``with_budget`` adds the budget to."""
    task.predicts = predicts
    alone = {"_name": base, "sentence_avg": True}
    within = OmegaConf.merge(
        WithBudgetConfig(base_criterion=base, base_options={"sentence_avg": True}), {"_name": "with_budget"}
    )
    for cfg, given in ((OmegaConf.create(alone), base), (within, f"with_budget around {base}")):
        message = f"^--criterion: the task predicts {predicts}, expected {CRITERIONS[predicts]}, got {given}$"
        with pytest.raises(ValueError, match=message):
            task.build_criterion(cfg)


def test_an_engine_runs_trained_models_that_it_can_not_train(task):
    config = OmegaConf.structured(SkipRNNConfig(_name="skip_rnn", zoneout=0.1, engine="indexed", hidden_size=4))
    with pytest.raises(ValueError, match="^--engine: 'indexed' has no zoneout; expected auto or one of reference$"):
        task.build_model(config)
    model = task.build_model(config, from_checkpoint=True).eval()
    assert model(torch.zeros(2, 5, 3)).prediction.shape == (2, 2)


@pytest.mark.parametrize("engine", ["indexed", "native"])
def test_an_engine_that_can_not_train_a_model_of_any_task(engine):
    """Not in the first batch, but when the model is built; and what no engine could run, when the module is built."""
    cfg = OmegaConf.structured(SkipRNNConfig(_name="skip_rnn", recurrent_dropout=0.1, engine=engine, hidden_size=4))
    plain = FairseqTask(None)
    attributes = {"input_size": 3, "output_size": 2, "per_step": False, "encoder_flops": 0}
    vars(plain).update(attributes, build_embedding=lambda: None)
    with pytest.raises(
        ValueError, match=f"^--engine: '{engine}' has no recurrent_dropout; expected auto or one of ref"
    ):
        plain.build_model(cfg)
    assert plain.build_model(cfg, from_checkpoint=True).rnn.engine == engine
    with pytest.raises(ValueError, match=f"^engine: '{engine}' has no layer_norm; expected auto or one of reference$"):
        SkipGRU(3, 4, layer_norm=True, engine=engine)


def write_numbers(folder):
    """Features that are labelled with numbers."""
    manifest = write_features(folder) / "manifest.tsv"
    manifest.write_text(manifest.read_text().replace("\tup", "\t1.5").replace("\tdown", "\t-0.5"))


STORED = {
    "sequential_mnist": write_digits,
    "feature_classification": write_features,
    "feature_localization": write_localization,
    "feature_regression": write_numbers,
    "imdb_sentiment": write_texts,
}


@pytest.mark.parametrize("train_subset", ["train", "valid"])
@pytest.mark.parametrize("name", ["adding", "frequency_discrimination", *STORED])
def test_draws_anew_what_it_trains_on_and_nothing_else(tmp_path, name, train_subset):
    """With ``--train-subset valid`` the split train is held out."""
    options = {**vars(TASK_DATACLASS_REGISTRY[name]()), "seed": 1, "valid_size": 36}
    if name in STORED:
        STORED[name](tmp_path / "data")
        options["data_dir"] = str(tmp_path / "data")
    cfg = OmegaConf.create({"task": options, "dataset": {"train_subset": train_subset}})
    task, draws = TASK_REGISTRY[name](cfg.task), {}
    for split in ("train", "valid"):
        task.load_dataset(split)
        dataset, seeds = task.dataset(split), []
        for epoch in (1, 2):
            dataset.set_epoch(epoch)
            seeds.append(dataset[0]["seed"])
        draws[split] = len(set(seeds))
    assert draws == {"train": 1, "valid": 1, train_subset: 2}
