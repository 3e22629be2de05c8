"""The fairseq model for sentence prediction: the encoder, its options and architectures, classification heads."""

from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch

import skiprnn_plugin  # noqa: F401
from skiprnn_plugin.models.text import SkipRNNTextConfig, SkipRNNTextModel

from fairseq.data import Dictionary  # isort: skip
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY  # isort: skip

ARCHITECTURES = [f"{prefix}_{cell}_text" for prefix in ("skip", "random_skip", "full") for cell in ("lstm", "gru")]
LENGTHS = (6, 3, 1)
OPTIONS = [{}, {"encoder_bidirectional": True, "encoder_layers": 2, "binarize": "bernoulli"}]


def make_task():
    dictionary = Dictionary()
    for word in "abcdefgh":
        dictionary.add_symbol(word)
    return SimpleNamespace(source_dictionary=dictionary)


def build(arch="skip_lstm_text", heads=(("head", 3),), **options):
    sizes = {"encoder_embed_dim": 5, "encoder_hidden_size": 6}
    args = Namespace(**{**sizes, "gate_init": "authors", **options})  # so that texts differ in what they skip
    ARCH_CONFIG_REGISTRY[arch](args)
    torch.manual_seed(0)
    model = SkipRNNTextModel.build_model(SkipRNNTextConfig(**vars(args)), make_task())
    for name, num_classes in heads:
        model.register_classification_head(name, num_classes)
    return model


def make_texts(left=False):
    """Texts of random tokens, padded on the right, as those of fairseq's task, or on the left."""
    texts = torch.full((len(LENGTHS), max(LENGTHS)), make_task().source_dictionary.pad())
    generator = torch.Generator().manual_seed(1)
    for row, length in zip(texts, LENGTHS):
        (row[len(row) - length :] if left else row[:length]).copy_(torch.randint(4, 12, (length,), generator=generator))
    return texts


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "bidirectional"])
def test_architecture(arch, bidirectional):
    assert ARCH_MODEL_REGISTRY[arch] is SkipRNNTextModel
    model = build(arch, encoder_bidirectional=bidirectional, encoder_layers=2)
    prefix, cell, _ = arch.rsplit("_", 2)
    assert model.encoder.rnn.cell == cell and (model.encoder.rnn.update_weight is not None) == (prefix == "skip")
    logits, extra = model(make_texts(), features_only=True, classification_head_name="head")
    assert logits.shape == (3, 3) and extra["updates"].shape == (3, 1 + bidirectional, 6)
    (logits.square().sum() + extra["updates"].sum()).backward()
    assert {name for name, p in model.named_parameters() if p.grad is None} == set()


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_padded_batch_is_each_text_alone(arch, options):
    """Padding on either side changes nothing, nor do random updates in evaluation depend on the batch."""
    model = build(arch, update_bias=-1.0, **options).eval()
    right, left = make_texts(), make_texts(left=True)
    with torch.no_grad():
        logits, extra = model(right, classification_head_name="head")
        torch.testing.assert_close(model(left, classification_head_name="head")[0], logits)
        features = model(right, features_only=True)[0]
        for row, length in enumerate(LENGTHS):
            text = right[row : row + 1, :length]
            alone, read = model(text, classification_head_name="head")
            torch.testing.assert_close(alone[0], logits[row])
            torch.testing.assert_close(model(text)[0][0], features[row, :length])
            assert torch.equal(read["updates"][0], extra["updates"][row, :, :length])
            assert not extra["updates"][row, :, length:].any() and not features[row, length:].any()


@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "bidirectional"])
def test_what_a_head_reads(bidirectional):
    """Computed from the outputs at all steps; backwards the last output is that of the first step."""
    model, texts = build(encoder_bidirectional=bidirectional).eval(), make_texts()
    logits = model(texts, classification_head_name="head")[0]
    for features, length, row in zip(model(texts)[0], LENGTHS, logits):
        read = torch.cat([features[length - 1, :6], features[0, 6:]])
        torch.testing.assert_close(model.classification_heads["head"](read), row)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision(dtype):
    """Also for heads that are made later."""
    model, texts = build(encoder_bidirectional=True, dropout=0.0), make_texts()
    expected = model(texts, classification_head_name="head")[0]
    model.to(dtype)
    got = model(texts, classification_head_name="head")[0]
    assert got.dtype == dtype
    torch.testing.assert_close(got.float(), expected, atol=2e-2, rtol=0)
    model.register_classification_head("later", 2)
    assert model(texts, classification_head_name="later")[0].dtype == dtype
    assert model.get_normalized_probs((got, {}), log_probs=True).dtype == torch.float32


def test_random_updates_in_training_and_evaluation():
    model = build("random_skip_gru_text", skip_prob=0.3, encoder_bidirectional=True)
    texts = torch.randint(4, 12, (200, 20), generator=torch.Generator().manual_seed(2))
    drawn = [model.train(training)(texts)[1]["updates"] for training in (True, True, False, False)]
    assert not torch.equal(drawn[0], drawn[1]) and torch.equal(drawn[2], drawn[3])
    assert not torch.equal(model(texts.flip(1))[1]["updates"], drawn[3])
    for updates in (drawn[0], drawn[2]):
        assert abs(float(updates.detach().mean()) - 0.7) < 0.02


def test_heads_of_a_checkpoint():
    """Those that the model lacks are made; one that the checkpoint lacks, or has for another number of classes, keeps
    its weights."""
    trained = build(heads=[("same", 2), ("more", 2), ("unknown", 4)])
    model = build(heads=[("same", 2), ("more", 5), ("new", 3)])
    for parameter in trained.parameters():
        torch.nn.init.constant_(parameter, 0.5)
    kept = {name: model.classification_heads[name].weight.clone() for name in ("more", "new")}
    assert model.load_state_dict(trained.state_dict()).missing_keys == []
    heads = model.classification_heads
    assert list(heads) == ["same", "more", "new", "unknown"] and heads["unknown"].out_features == 4
    assert all((heads[name].weight == 0.5).all() for name in ("same", "unknown"))
    assert all(torch.equal(heads[name].weight, weight) for name, weight in kept.items())
    assert (model.encoder.rnn.weight_hh_l0 == 0.5).all()


def test_pretrained_and_frozen_embeddings(tmp_path):
    path, dictionary = tmp_path / "vectors.txt", make_task().source_dictionary
    path.write_text("2 5\na 1 2 3 4 5\nz 0 0 0 0 0\n")
    model = build(encoder_embed_path=str(path), encoder_freeze_embed=True)
    weight = model.encoder.embed_tokens.weight
    assert weight[dictionary.index("a")].tolist() == [1, 2, 3, 4, 5] and weight[dictionary.index("b")].all()
    assert not weight.requires_grad and build(encoder_embed_path=str(path)).encoder.embed_tokens.weight.requires_grad


@pytest.mark.parametrize(
    "options,message",
    [
        ({"encoder_embed_dim": 0}, "--encoder-embed-dim: .*got 0"),
        ({"encoder_hidden_size": 0}, "--encoder-hidden-size: .*got 0"),
        ({"encoder_layers": 0}, "--encoder-layers: .*got 0"),
        ({"encoder_dropout_in": 1.5}, "--encoder-dropout-in: .*got 1.5"),
        ({"dropout": -1.0}, "--dropout: .*got -1.0"),
        ({"skip_prob": 2.0}, "--skip-prob: .*got 2.0"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        build(**options)
