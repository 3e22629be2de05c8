"""The fairseq model for translation: the encoder, its options and architectures, weights of fairseq's own ``lstm``."""

from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch

import skiprnn_plugin  # noqa: F401
from skiprnn_plugin.models.seq2seq import SkipRNNSeq2SeqConfig, SkipRNNSeq2SeqModel
from skiprnn_plugin.models.skip_rnn import SkipRNNConfig, SkipRNNModel

from fairseq.data import Dictionary  # isort: skip
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY  # isort: skip
from fairseq.models.lstm import LSTMModel  # isort: skip
from fairseq.tasks.translation import TranslationTask  # isort: skip

CELLS, RULES = ("lstm", "gru"), {"skip": "learned", "random_skip": "random", "full": "full"}
ARCHITECTURES = [f"{prefix}_{cell}_seq2seq" for prefix in RULES for cell in CELLS]
SIZES = {
    "encoder_embed_dim": 5,
    "encoder_hidden_size": 6,
    "decoder_embed_dim": 7,
    "decoder_hidden_size": 8,
    "decoder_out_embed_dim": 9,
    "gate_init": "authors",  # so that sequences differ in the steps that they skip
}


def make_dictionary(words="abcdefgh"):
    dictionary = Dictionary()
    for word in words:
        dictionary.add_symbol(word)
    return dictionary


def make_task(source="abcdefgh", target="uvwxyz"):
    return SimpleNamespace(source_dictionary=make_dictionary(source), target_dictionary=make_dictionary(target))


def build(arch="skip_lstm_seq2seq", task=None, **options):
    args = Namespace(**{**SIZES, **options})
    ARCH_CONFIG_REGISTRY[arch](args)
    torch.manual_seed(0)
    return SkipRNNSeq2SeqModel.build_model(SkipRNNSeq2SeqConfig(**vars(args)), task or make_task())


def make_sources(lengths=(6, 3, 1), left=True):
    """Sources of random tokens, padded on the left as fairseq's, or on the right."""
    torch.manual_seed(1)
    dictionary = make_dictionary()
    sources = torch.full((len(lengths), max(lengths)), dictionary.pad())
    for row, length in zip(sources, lengths):
        (row[len(row) - length :] if left else row[:length]).copy_(
            torch.randint(dictionary.nspecial, len(dictionary), (length,))
        )
    return sources


def targets(batch, steps=4):
    return torch.randint(4, 10, (batch, steps), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "bidirectional"])
def test_architecture(arch, bidirectional):
    assert ARCH_MODEL_REGISTRY[arch] is SkipRNNSeq2SeqModel
    model = build(arch, encoder_bidirectional=bidirectional, encoder_layers=2, decoder_layers=2)
    prefix, cell, _ = arch.rsplit("_", 2)
    assert model.encoder.rnn.cell == cell and (model.encoder.rnn.update_weight is not None) == (prefix == "skip")
    logits, attention = model(make_sources(), None, targets(3))
    assert attention is None
    assert logits.shape == (3, 4, 10)
    logits.square().sum().backward()
    assert {name for name, p in model.named_parameters() if p.grad is None} == set()


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("options", [{}, {"encoder_bidirectional": True, "binarize": "bernoulli"}], ids=str)
def test_a_padded_batch_is_each_source_alone(arch, options):
    """Padding on either side changes nothing, nor do random updates in evaluation depend on the batch."""
    model = build(arch, update_bias=-1.0, **options).eval()
    lengths, sources, outputs = (6, 3, 1), make_sources(), targets(3)
    logits, attention = model(sources, None, outputs)
    right, right_attention = model(make_sources(left=False), None, outputs)
    torch.testing.assert_close(right, logits)
    for row, length in enumerate(lengths):
        alone, attended = model(sources[row : row + 1, 6 - length :], None, outputs[row : row + 1])
        torch.testing.assert_close(alone[0], logits[row])
        torch.testing.assert_close(attention[row, :, 6 - length :], attended[0])
        torch.testing.assert_close(right_attention[row, :, :length], attended[0])
        assert (attention[row, :, : 6 - length] == 0).all() and (right_attention[row, :, length:] == 0).all()


@pytest.mark.parametrize("lengths", [(6, 0, 1), (0, 0)], ids=str)
@pytest.mark.parametrize("options", [{}, {"attend_updates": True}], ids=str)
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_a_source_of_padding_alone(lengths, options, training):
    model = build(update_bias=-1.0, **options).train(training)
    sources = torch.full((len(lengths), 6), make_dictionary().pad())
    for row, length in zip(sources, lengths):
        row[6 - length :] = 5
    logits, _ = model(sources, None, targets(len(lengths)))
    logits.square().sum().backward()
    assert logits.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("arch", ["skip_lstm_seq2seq", "skip_gru_seq2seq"])
def test_half_precision(arch, dtype):
    model = build(arch, encoder_bidirectional=True, update_bias=-1.0, dropout=0.0)
    sources, outputs = make_sources(), targets(3)
    expected = model(sources, None, outputs)[0]
    model.to(dtype)
    for training in (True, False):
        got = model.train(training)(sources, None, outputs)[0]
        assert got.dtype == dtype
        torch.testing.assert_close(got.float(), expected, atol=2e-2, rtol=0)


def test_random_updates_in_training_and_evaluation():
    model = build("random_skip_gru_seq2seq", skip_prob=0.3, encoder_bidirectional=True)
    encoder, updates = model.encoder, []
    encoder.rnn.register_forward_hook(lambda module, arguments, result: updates.append(result[2]))
    sources = torch.randint(4, 12, (200, 20))
    for training in (True, True, False, False):
        encoder.train(training)(sources)
    assert not torch.equal(updates[0], updates[1]) and torch.equal(updates[2], updates[3])
    encoder(sources.flip(1))
    assert not torch.equal(updates[4], updates[3])
    for drawn in (updates[0].detach(), updates[2].detach()):
        assert abs(float(drawn.mean()) - 0.7) < 0.02
        assert abs(float((drawn[0] == drawn[1]).float().mean()) - (0.7**2 + 0.3**2)) < 0.03  # independent


@pytest.mark.parametrize("arch", ["skip_gru_seq2seq", "random_skip_lstm_seq2seq"])
def test_decoding_step_by_step_equals_the_whole_pass(arch):
    """Also after beam search has reordered, repeated and dropped sources."""
    model = build(arch, encoder_bidirectional=True, update_bias=-1.0).eval()
    sources, outputs, order = make_sources(), targets(4), torch.tensor([2, 0, 0, 1])
    expected, _ = model(sources[order], None, outputs)
    encoder_out = model.encoder.reorder_encoder_out(model.encoder(sources), order)
    state = {}
    steps = [model.decoder(outputs[:, : end + 1], encoder_out, incremental_state=state)[0] for end in range(4)]
    torch.testing.assert_close(torch.cat(steps, 1), expected)


@pytest.mark.parametrize("arch,kept", [("full_lstm_seq2seq", "c"), ("full_gru_seq2seq", "h")])
def test_the_cell_state_that_the_decoder_starts_from(arch, kept):
    sources = make_sources()
    model = build(arch, encoder_bidirectional=True).eval()
    out, zero = model.encoder(sources), build(arch, encoder_bidirectional=True, decoder_initial_cell="zero").eval()
    state = model.encoder.rnn(model.encoder.embed_tokens(sources), padding_mask=sources.eq(1))[1]
    torch.testing.assert_close(out.cells, torch.cat(tuple(getattr(state, kept)), -1))
    torch.testing.assert_close(out.hiddens, torch.cat(tuple(state.h), -1))
    assert out.cells.shape == (1, 3, 12)
    assert zero.encoder(sources).cells.any() == (kept == "c")


def build_theirs(task, **options):
    args = Namespace(**{**SIZES, "criterion": "cross_entropy", **options})
    torch.manual_seed(3)
    return LSTMModel.build_model(args, task).eval()


@pytest.mark.parametrize(
    "options",
    [{}, {"encoder_bidirectional": True}, {"encoder_layers": 2, "decoder_layers": 2}, {"decoder_attention": "0"}],
    ids=str,
)
def test_a_checkpoint_of_fairseqs_lstm(options):
    """The encoder's outputs at real steps, its last states and the model's predictions are those of fairseq's."""
    task = make_task()
    theirs, ours = build_theirs(task, **options), build("full_lstm_seq2seq", task, **options).eval()
    ours.load_state_dict(theirs.state_dict())
    lengths, sources, outputs = torch.tensor([6, 3, 1]), make_sources(), targets(3)
    expected, got = theirs.encoder(sources, lengths), ours.encoder(sources)
    for row, length in enumerate(lengths):
        torch.testing.assert_close(got.outputs[:length, row], expected[0][:length, row])
    torch.testing.assert_close((got.hiddens, got.cells), expected[1:3])
    torch.testing.assert_close(ours(sources, None, outputs)[0], theirs(sources, lengths, outputs)[0])


def test_a_checkpoint_of_fairseqs_lstm_for_a_gate():
    """The gate keeps its own initial weights; a checkpoint of this model is loaded as it is."""
    task = make_task()
    theirs, ours = build_theirs(task), build("skip_lstm_seq2seq", task)
    rnn = ours.encoder.rnn
    gate, bias = rnn.update_weight.clone(), rnn.update_bias.clone()
    ours.load_state_dict(theirs.state_dict())
    assert torch.equal(rnn.weight_hh_l0, theirs.encoder.lstm.weight_hh_l0)
    assert torch.equal(rnn.update_weight, gate) and torch.equal(rnn.update_bias, bias)
    assert not rnn.initial_h.any() and not rnn.initial_c.any()
    torch.nn.init.ones_(rnn.initial_h)
    again = build("skip_lstm_seq2seq", task)
    again.load_state_dict(ours.state_dict())
    assert torch.equal(again.encoder.rnn.initial_h, rnn.initial_h)


@pytest.mark.parametrize(
    "arch,options,message",
    [
        ("full_gru_seq2seq", {}, "--arch: expected an architecture with an LSTM, as the checkpoint's, got gru"),
        (
            "full_lstm_seq2seq",
            {"encoder_layers": 2, "decoder_layers": 2, "encoder_bidirectional": True},
            "--encoder-layers: .* expected one layer or one direction",
        ),
    ],
)
def test_checkpoints_without_a_counterpart(arch, options, message):
    task = make_task()
    with pytest.raises(ValueError, match=message):
        build(arch, task, **options).load_state_dict(build_theirs(task, **options).state_dict())


MEMORY = [
    ("skip_lstm_seq2seq", {}),
    ("skip_gru_seq2seq", {"encoder_layers": 2, "decoder_layers": 2}),
    ("skip_lstm_seq2seq", {"encoder_bidirectional": True}),
    ("random_skip_gru_seq2seq", {"encoder_bidirectional": True, "skip_prob": 0.8}),
]


def build_with_repeats(arch, options):
    """A model in evaluation that skips many steps of the sources, and the sources."""
    model = build(arch, update_bias=-1.5, dropout=0.0, **options).eval()
    if "skip_prob" in options:  # the same in training
        schedule = torch.rand(2, 3, 20, generator=torch.Generator().manual_seed(5)) >= options["skip_prob"]
        model.encoder.decisions.draw = lambda *arguments: {"schedule": schedule}
    torch.nn.init.normal_(model.decoder.attention.input_proj.weight, std=30.0)  # attention that is not almost uniform
    return model, make_sources((20, 13, 1))


def read_with_all_steps(model, sources):
    """The encoder's output with an entry for each step, as in training."""
    try:
        return model.encoder.train()(sources)
    finally:
        model.eval()


@pytest.mark.parametrize("arch,options", MEMORY, ids=str)
def test_a_memory_of_updates_equals_one_of_all_steps(arch, options):
    """One entry for equal outputs that follow one another. What the model predicts and the attention over the source
    are the same."""
    model, sources = build_with_repeats(arch, options)
    short, whole, outputs = model.encoder(sources), read_with_all_steps(model, sources), targets(3)
    assert whole.entries is None and len(whole.outputs) == 20
    changes = (whole.outputs[1:] != whole.outputs[:-1]).any(-1) & ~sources.eq(1).t()[1:]
    begins = torch.cat([~sources.eq(1).t()[:1], changes])
    assert (~short.padding_mask).sum(0).tolist() == begins.sum(0).tolist()
    assert short.padding_mask[len(short.outputs) - 1].tolist() != [True] * 3 and len(short.outputs) < 16
    for row in range(3):
        assert torch.equal(short.outputs[: begins[:, row].sum(), row], whole.outputs[begins[:, row], row])
    expected, attention = model.decoder(outputs, whole)
    got, got_attention = model.decoder(outputs, short)
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(got_attention, attention, atol=1e-6, rtol=0)
    assert attention.shape == (3, 4, 20) and attention[0].max() > 1.5 * attention[0].min()
    order = torch.tensor([1, 1, 0])
    reordered = model.decoder(outputs[order], model.encoder.reorder_encoder_out(short, order))
    torch.testing.assert_close(reordered, (expected[order], attention[order]), atol=1e-6, rtol=0)


@pytest.mark.parametrize("arch,options", MEMORY, ids=str)
@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
def test_attending_to_updates_alone(arch, options, training):
    """As with all steps of which those that repeat the output before them are padding."""
    model, sources = build_with_repeats(arch, {**options, "attend_updates": True})
    short, outputs = model.encoder.train(training)(sources), targets(3)
    model.eval().encoder.attend_updates = False
    whole = read_with_all_steps(model, sources)
    repeats = (whole.outputs[1:] == whole.outputs[:-1]).all(-1)
    bias = whole.bias.clone()
    bias[1:][repeats] = -torch.inf
    expected = model.decoder(outputs, whole._replace(bias=bias))
    got = model.decoder(outputs, short)
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=0)
    assert (got[1][:, :, 1:].transpose(1, 2)[repeats.t()] == 0).all() and repeats.any()
    assert not torch.allclose(got[0], model.decoder(outputs, whole)[0], atol=1e-4)


def write_embeddings(path, words, size):
    values = torch.randn(len(words), size, generator=torch.Generator().manual_seed(4))
    rows = [f"{word} {' '.join(f'{x:.4f}' for x in row.tolist())}" for word, row in zip(words, values)]
    path.write_text(f"{len(words)} {size}\n" + "\n".join(rows) + "\n")
    return values


def test_pretrained_and_frozen_embeddings(tmp_path):
    source, target = tmp_path / "source.txt", tmp_path / "target.txt"
    values, decoded = write_embeddings(source, "aceg", 5), write_embeddings(target, "uz", 7)
    task = make_task()
    model = build(
        task=task, encoder_embed_path=str(source), decoder_embed_path=str(target), encoder_freeze_embed=True
    )  # fmt: skip
    weight = model.encoder.embed_tokens.weight
    rows = [task.source_dictionary.index(word) for word in "aceg"]
    torch.testing.assert_close(weight[rows], values, atol=1e-4, rtol=0)
    assert not weight[task.source_dictionary.index("b")].eq(0).any() and not weight.requires_grad
    rows = [task.target_dictionary.index(word) for word in "uz"]
    torch.testing.assert_close(model.decoder.embed_tokens.weight[rows].detach(), decoded, atol=1e-4, rtol=0)
    assert model.decoder.embed_tokens.weight.requires_grad
    with pytest.raises(ValueError, match="source.txt: expected embeddings of size 6, got 5"):
        build(encoder_embed_path=str(source), encoder_embed_dim=6)
    assert not build(decoder_freeze_embed=True).decoder.embed_tokens.weight.requires_grad


def test_shared_embeddings():
    options = {"encoder_embed_dim": 4, "decoder_embed_dim": 4, "decoder_out_embed_dim": 4}
    model = build(share_decoder_input_output_embed=True, **options)
    assert not hasattr(model.decoder, "fc_out")
    assert model.encoder.embed_tokens is not model.decoder.embed_tokens
    model = build(task=make_task("abc", "abc"), share_all_embeddings=True, **options)
    assert model.encoder.embed_tokens is model.decoder.embed_tokens and not hasattr(model.decoder, "fc_out")


def test_options_have_fairseqs_defaults():
    args = Namespace()
    ARCH_CONFIG_REGISTRY["lstm"](args)
    ours = SkipRNNSeq2SeqConfig()
    dropouts = {f"{side}_dropout_{end}" for side in ("encoder", "decoder") for end in ("in", "out")}
    follow = {*dropouts, "encoder_hidden_size", "decoder_hidden_size"}
    for name, value in vars(args).items():
        if name in follow:
            assert getattr(ours, name) is None
        elif name != "adaptive_softmax_cutoff":  # theirs is given to one criterion only
            assert getattr(ours, name) == value, name
    model = build(encoder_hidden_size=None, decoder_hidden_size=None, dropout=0.3, decoder_dropout_out=0.2)
    assert model.encoder.rnn.hidden_size == 5 and model.decoder.hidden_size == 7
    assert model.encoder.dropout_in.p == model.encoder.dropout_out.p == model.decoder.dropout_in_module.p == 0.3
    assert model.decoder.dropout_out_module.p == 0.2 and model.encoder.rnn.dropout == 0.3


def test_adaptive_softmax():
    assert build(adaptive_softmax_cutoff=[3, 6], decoder_hidden_size=16).decoder.adaptive_softmax is not None


@pytest.mark.parametrize(
    "options,message",
    [
        ({"encoder_layers": 2}, "--decoder-layers: expected as many as --encoder-layers, 2, got 1"),
        ({"encoder_hidden_size": 0}, "--encoder-hidden-size: .*got 0"),
        ({"decoder_embed_dim": -1}, "--decoder-embed-dim: .*got -1"),
        ({"encoder_dropout_in": 1.5}, "--encoder-dropout-in: .*got 1.5"),
        ({"dropout": 1.0}, "--dropout: .*got 1.0"),
        ({"decoder_attention": "maybe"}, "--decoder-attention: .*got 'maybe'"),
        ({"decoder_initial_cell": "c"}, "--decoder-initial-cell: .*got 'c'"),
        ({"skip_prob": 2.0}, "--skip-prob: .*got 2.0"),
        ({"gate_layers": [1]}, "--gate-layers: .*got"),
        ({"share_all_embeddings": True}, "--share-all-embeddings: expected a joined dictionary"),
        ({"share_decoder_input_output_embed": True}, "--decoder-out-embed-dim: .* 7, got 9"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        build(**options)


@pytest.mark.parametrize(
    "options,message",
    [
        ({"decoder_embed_dim": 5, "decoder_out_embed_dim": 5, "decoder_embed_path": "x"}, "no --decoder-embed-path"),
        ({}, "--share-all-embeddings: expected --decoder-embed-dim to be that of the encoder, 5, got 7"),
        ({"decoder_embed_dim": 5}, "--decoder-out-embed-dim: .* 5, got 9"),
    ],
)
def test_embeddings_that_can_not_be_shared(options, message):
    with pytest.raises(ValueError, match=message):
        build(task=make_task("abc", "abc"), share_all_embeddings=True, **options)


@pytest.mark.parametrize("name,options", [("skip_lstm", {"cell": "lstm"}), ("full_gru", {"update_rule": "full"})])
def test_an_architecture_that_does_not_go_with_the_task(name, options):
    task = TranslationTask(None, make_dictionary(), make_dictionary())
    with pytest.raises(ValueError, match=f"^--arch: expected {name}_seq2seq, got {name}, .*TranslationTask.*$"):
        SkipRNNModel.build_model(SkipRNNConfig(**options), task)
    with pytest.raises(ValueError, match="^--arch: expected one that goes with the task, got skip_gru, .*Simple.*$"):
        SkipRNNModel.build_model(SkipRNNConfig(), make_task())
    with pytest.raises(ValueError, match=f"^--arch: .*Namespace, such as {name}, got {name}_seq2seq, .*$"):
        SkipRNNSeq2SeqModel.build_model(SkipRNNSeq2SeqConfig(**options), SimpleNamespace())
