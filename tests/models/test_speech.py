"""The fairseq models for speech: the encoder, its options and architectures; the lengths that criterion ctc takes."""

import math
import sys
from argparse import Namespace
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from omegaconf import OmegaConf
from torch.nn import functional as F

import skiprnn_plugin  # noqa: F401
from skiprnn_plugin.models.ctc import SkipRNNCTCConfig, SkipRNNCTCModel
from skiprnn_plugin.models.fitting import refuse_misfit
from skiprnn_plugin.models.s2t import SkipRNNS2TConfig, SkipRNNS2TModel
from skiprnn_plugin.models.seq2seq import SkipRNNSeq2SeqConfig, SkipRNNSeq2SeqModel
from skiprnn_plugin.models.skip_rnn import SkipRNNConfig, SkipRNNModel

from fairseq.criterions.ctc import CtcCriterion, CtcCriterionConfig  # isort: skip
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion  # isort: skip
from fairseq.data import Dictionary  # isort: skip
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY  # isort: skip
from fairseq.models.speech_to_text.s2t_transformer import Conv1dSubsampler  # isort: skip
from fairseq.tasks import FairseqTask  # isort: skip
from fairseq.tasks.speech_to_text import SpeechToTextTask  # isort: skip
from fairseq.tasks.translation import TranslationTask  # isort: skip

CELLS, RULES = ("lstm", "gru"), ("skip", "random_skip", "full")
MODELS = {"s2t": (SkipRNNS2TModel, SkipRNNS2TConfig), "ctc": (SkipRNNCTCModel, SkipRNNCTCConfig)}
SIZES = {"input_feat_per_channel": 3, "encoder_embed_dim": 4, "encoder_hidden_size": 6}
SIZES["gate_init"] = "authors"  # so that utterances differ in the steps that they skip
DECODER = {"decoder_embed_dim": 7, "decoder_hidden_size": 8, "decoder_out_embed_dim": 9}
LENGTHS = (13, 6, 1)


def make_dictionary(words="abcdef"):
    dictionary = Dictionary()
    for word in words:
        dictionary.add_symbol(word)
    return dictionary


def make_task():
    return SimpleNamespace(source_dictionary=None, target_dictionary=make_dictionary())


def make_speech_to_text():
    """fairseq's task without its data."""
    task = SpeechToTextTask.__new__(SpeechToTextTask)
    task.tgt_dict, task.speaker_to_id = make_dictionary(), None
    task.data_cfg = SimpleNamespace(input_feat_per_channel=3, input_channels=1)
    return task


def build(arch="skip_lstm_s2t", task=None, **options):
    model, config = MODELS[arch.rpartition("_")[2]]
    args = Namespace(**{**SIZES, **(DECODER if arch.endswith("s2t") else {}), **options})
    ARCH_CONFIG_REGISTRY[arch](args)
    torch.manual_seed(0)
    return model.build_model(config(**vars(args)), task or make_task())


def make_frames(lengths=LENGTHS):
    """Frames, which are not 0 at padding, and their lengths."""
    frames = torch.randn(len(lengths), max(lengths), 3, generator=torch.Generator().manual_seed(1))
    return frames, torch.tensor(lengths)


def targets(batch, steps=4):
    return torch.randint(4, 10, (batch, steps), generator=torch.Generator().manual_seed(2))


def listen(encoder):
    """A list to which each call of the encoder's Skip RNN adds its updates."""
    updates = []
    encoder.rnn.register_forward_hook(lambda module, arguments, result: updates.append(result[2].detach()))
    return updates


@pytest.mark.parametrize("ending", MODELS)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("rule", RULES)
def test_architecture(rule, cell, ending):
    arch = f"{rule}_{cell}_{ending}"
    assert ARCH_MODEL_REGISTRY[arch] is MODELS[ending][0]
    layers = {"encoder_layers": 2, "decoder_layers": 2} if ending == "s2t" else {"encoder_layers": 2}
    model = build(arch, encoder_bidirectional=True, stack_frames=2, conv_kernel_sizes="3", **layers)
    assert model.encoder.rnn.cell == cell and (model.encoder.rnn.update_weight is not None) == (rule == "skip")
    frames, lengths = make_frames()
    output = model(frames, lengths, prev_output_tokens=targets(3))
    logits = output[0] if ending == "s2t" else output["encoder_out"]
    assert logits.shape == ((3, 4, 10) if ending == "s2t" else (4, 3, 10))
    logits.square().sum().backward()
    assert {name for name, p in model.named_parameters() if p.grad is None} == set()


FRONTS = [{}, {"stack_frames": 3}, {"conv_kernel_sizes": "5,3"}, {"stack_frames": 2, "conv_kernel_sizes": "3,3"}]


@pytest.mark.parametrize("options", FRONTS, ids=str)
@pytest.mark.parametrize("arch", ["skip_gru", "random_skip_lstm"])
@pytest.mark.parametrize("ending", MODELS)
def test_a_padded_batch_is_each_sequence_alone(arch, ending, options):
    """What is behind a sequence's length changes nothing, nor do random updates in evaluation depend on the batch."""
    model = build(f"{arch}_{ending}", encoder_bidirectional=True, update_bias=-1.0, **options).eval()
    (frames, lengths), outputs, updates = make_frames(), targets(3), listen(model.encoder)

    def read(rows, steps):
        output = model(frames[rows, :steps], lengths[rows], prev_output_tokens=outputs[rows])
        return output[0] if ending == "s2t" else output["encoder_out"].transpose(0, 1)

    together = read(slice(None), 13)
    for row, length in enumerate(LENGTHS):
        alone = read(slice(row, row + 1), length)
        torch.testing.assert_close(alone[0], together[row, : alone.shape[1]])
        steps = updates[-1].shape[2]
        assert torch.equal(updates[-1][:, 0], updates[0][:, row, :steps]) and not updates[0][:, row, steps:].any()


@pytest.mark.parametrize(
    "options,steps",
    [
        ({}, [13, 6, 1]),
        ({"stack_frames": 3}, [5, 2, 1]),
        ({"conv_kernel_sizes": "5,3"}, [4, 2, 1]),
        ({"stack_frames": 2, "conv_kernel_sizes": "3"}, [4, 2, 1]),
    ],
    ids=str,
)
def test_steps(options, steps):
    """The numbers of steps, which are those that a model that never skips updates, and those that CTC predicts at."""
    frames, lengths = make_frames()
    encoder = build("full_gru_s2t", **options).encoder
    updates = listen(encoder)
    assert (~encoder(frames, lengths).padding_mask).sum(0).tolist() == steps  # in training, each step is an entry
    assert updates[0].sum(1).tolist() == steps
    output = build("full_gru_ctc", **options)(frames, lengths)
    assert (~output["padding_mask"]).sum(1).tolist() == steps
    assert output["encoder_out"].shape[:2] == output["padding_mask"].t().shape


def test_stacked_frames_and_convolutions():
    """A step is K frames in their order; the convolutions are those of fairseq, where nothing is padding."""
    frames = torch.arange(24.0).view(1, 8, 3)
    encoder = build("full_lstm_s2t", stack_frames=3).encoder
    x, _ = encoder._make_steps(frames, torch.tensor([8]))
    expected = F.pad(torch.arange(24.0), (0, 3)).view(1, 3, 9)
    assert torch.equal(x, expected)
    encoder = build("full_lstm_s2t", conv_kernel_sizes="5,3", conv_channels=10).encoder
    theirs = Conv1dSubsampler(3, 10, 4, [5, 3])
    theirs.load_state_dict(encoder.subsample.state_dict())
    expected, lengths = theirs(frames / 24, torch.tensor([8]))
    x, own_lengths = encoder._make_steps(frames / 24, torch.tensor([8]))
    torch.testing.assert_close(x, expected.transpose(0, 1))
    assert torch.equal(own_lengths, lengths)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("ending", MODELS)
def test_half_precision(ending, dtype):
    """Also of frames that are not in half precision."""
    model = build(f"skip_lstm_{ending}", update_bias=-1.0, dropout=0.0, stack_frames=2, conv_kernel_sizes="3")
    frames, lengths = make_frames()

    def read(frames):
        output = model(frames, lengths, prev_output_tokens=targets(3))
        return output[0] if ending == "s2t" else output["encoder_out"]

    expected = read(frames)
    model.to(dtype)
    for given in (frames, frames.to(dtype)):
        got = read(given)
        assert got.dtype == dtype
        torch.testing.assert_close(got.float(), expected, atol=2e-2, rtol=0)


@pytest.mark.parametrize("options", [{"arch": "random_skip_gru_s2t"}, {"binarize": "bernoulli", "init": "torch"}])
def test_random_updates(options):
    """New ones in training; in evaluation those of the frames."""
    encoder = build(update_bias=0.0, gate_init="zeros", **options).encoder
    updates, frames = listen(encoder), torch.randn(50, 20, 3)
    for training in (True, True, False, False):
        encoder.train(training)(frames)
    frames[:, 0, 1] += 1e-4
    encoder(frames)
    assert not torch.equal(updates[0], updates[1]) and torch.equal(updates[2], updates[3])
    assert (updates[3] != updates[4]).any(1).float().mean() > 0.9


def test_decoding_step_by_step_equals_the_whole_pass():
    """From a memory of updates alone, as in evaluation, and from all steps, as in training; and when reordered."""
    model = build("skip_gru_s2t", update_bias=-1.0, stack_frames=2, dropout=0.0)
    (frames, lengths), outputs, order = make_frames(), targets(4), torch.tensor([2, 0, 0, 1])
    expected = model(frames[order], lengths[order], outputs)[0]
    encoder_out = model.encoder.eval()(frames, lengths)
    assert len(encoder_out.outputs) < 7
    encoder_out, state = model.encoder.reorder_encoder_out(encoder_out, order), {}
    model.eval()
    steps = [model.decoder(outputs[:, : end + 1], encoder_out, incremental_state=state)[0] for end in range(4)]
    torch.testing.assert_close(torch.cat(steps, 1), expected)


def save(model, path):
    """A checkpoint with the least that fairseq asks for."""
    history = [{"optimizer_name": "adam", "lr_scheduler_state": {}, "num_updates": 1}]
    torch.save({"model": model.state_dict(), "optimizer_history": history, "extra_state": {"train_iterator": {}}}, path)
    return str(path)


def test_pretrained_encoder(tmp_path):
    """From a model of either kind; a gate that it does not have keeps its initial weights."""
    trained = build("full_lstm_ctc", stack_frames=2)
    for parameter in trained.parameters():
        parameter.data += 1.0
    path = save(trained, tmp_path / "full.pt")
    weights = torch.load(path)["model"]
    fresh, encoder = (build(stack_frames=2, load_pretrained_encoder_from=p).encoder for p in (None, path))
    for name, value in encoder.state_dict().items():
        expected = weights.get(f"encoder.{name}", fresh.state_dict()[name])
        assert torch.equal(value, expected), name
    assert not torch.equal(encoder.rnn.weight_hh_l0, fresh.rnn.weight_hh_l0)
    with pytest.raises(ValueError, match=f"^--load-pretrained-encoder-from: .*same encoder, got {path} .*$"):
        build(stack_frames=3, load_pretrained_encoder_from=path).check_before_training()


@pytest.mark.parametrize("ending", MODELS)
@pytest.mark.parametrize("is_there", [False, True], ids=["missing", "of another encoder"])
def test_a_pretrained_encoder_that_can_not_be_had(ending, is_there, tmp_path):
    """It is an error in training, but a trained model does not need it."""
    path = str(tmp_path / "encoder.pt")
    if is_there:
        save(build("full_lstm_ctc"), path)
    args = Namespace(load_pretrained_encoder_from=path)
    ARCH_CONFIG_REGISTRY[f"skip_gru_{ending}"](args)
    task = make_speech_to_text()
    cfg = OmegaConf.structured(MODELS[ending][1](_name=f"skip_rnn_{ending}", **vars(args)))
    message = "with the same encoder, got .*encoder.pt" if is_there else ", got '.*encoder.pt', where there is no file$"
    message = f"^--load-pretrained-encoder-from: expected a checkpoint.*{message}"
    with pytest.raises(ValueError, match=message):
        task.build_model(cfg)
    task.build_model(cfg, from_checkpoint=True)


@pytest.mark.parametrize(
    "options,message",
    [
        ({"stack_frames": 0}, "--stack-frames: .*got 0"),
        ({"conv_kernel_sizes": "5,x"}, "--conv-kernel-sizes: .*got '5,x'"),
        ({"conv_kernel_sizes": "5,0"}, "--conv-kernel-sizes: .*got '5,0'"),
        ({"conv_kernel_sizes": "5", "conv_channels": 7}, "--conv-channels: expected an even number, got 7"),
        ({"encoder_layers": 0}, "--encoder-layers: .*got 0"),
        ({"encoder_dropout_in": 1.5}, "--encoder-dropout-in: .*got 1.5"),
        ({"skip_prob": 2.0}, "--skip-prob: .*got 2.0"),
    ],
)
@pytest.mark.parametrize("ending", MODELS)
def test_bad_options(ending, options, message):
    with pytest.raises(ValueError, match=message):
        build(f"skip_lstm_{ending}", **options)


@pytest.mark.parametrize(
    "options,message",
    [
        ({"encoder_layers": 2}, "--decoder-layers: expected as many as --encoder-layers, 2, got 1"),
        ({"decoder_initial_cell": "c"}, "--decoder-initial-cell: .*got 'c'"),
        ({"share_decoder_input_output_embed": True}, "--decoder-out-embed-dim: .* 7, got 9"),
    ],
)
def test_bad_options_of_the_decoder(options, message):
    with pytest.raises(ValueError, match=message):
        build(**options)


def test_the_decoders_options():
    model = build(decoder_out_embed_dim=7, share_decoder_input_output_embed=True, decoder_freeze_embed=True)
    assert not hasattr(model.decoder, "fc_out") and not model.decoder.embed_tokens.weight.requires_grad
    encoder = build("full_gru_s2t", decoder_initial_cell="zero").encoder
    assert not encoder(*make_frames()).cells.any()


@pytest.mark.parametrize("ending", MODELS)
def test_a_task_that_does_not_go_with_the_architecture(ending):
    model, config = MODELS[ending]
    message = f"^--arch: expected full_gru_seq2seq, got full_gru_{ending}, which does not go with TranslationTask: .*$"
    with pytest.raises(ValueError, match=message):
        model.build_model(config(update_rule="full"), TranslationTask(None, make_dictionary(), make_dictionary()))
    with pytest.raises(ValueError, match=f"^--arch: .*Namespace, such as skip_gru, got skip_gru_{ending}, .*$"):
        model.build_model(config(), SimpleNamespace())


def test_an_architecture_that_does_not_go_with_speech_to_text():
    task = make_speech_to_text()
    for model, config, arch in (
        (SkipRNNModel, SkipRNNConfig, "skip_gru"),
        (SkipRNNSeq2SeqModel, SkipRNNSeq2SeqConfig, "skip_gru_seq2seq"),
    ):
        with pytest.raises(ValueError, match=f"^--arch: expected skip_gru_s2t, got {arch}, .*SpeechToTextTask.*$"):
            model.build_model(config(), task)


@pytest.mark.parametrize("arch,ending", [("skip_lstm", ""), ("full_gru_seq2seq", "_seq2seq")])
def test_a_command_line_that_does_not_go_with_speech_to_text(monkeypatch, arch, ending):
    fitting = arch.removesuffix(ending) + "_s2t"
    monkeypatch.setattr(sys, "argv", ["fairseq-train", "data", "--task", "speech_to_text", "--arch", arch])
    with pytest.raises(ValueError, match=f"^--arch: expected {fitting}, got {arch}, .*SpeechToTextTask.*$"):
        refuse_misfit(ending)
    monkeypatch.setattr(sys, "argv", ["fairseq-train", "data", "--task", "speech_to_text", "--arch", "my_own"])
    refuse_misfit("")


def make_sample():
    """A batch of speech_to_text: its target lengths count the end of sentence, which criterion ctc leaves out."""
    frames, lengths = make_frames((13, 12, 9))
    dictionary = make_dictionary()
    target = torch.full((3, 4), dictionary.pad())
    for row, words in zip(target, ("aab", "fc", "d")):
        row[: len(words) + 1] = dictionary.encode_line(" ".join(words), add_if_not_exist=False)
    return {
        "id": torch.arange(3),
        "net_input": {"src_tokens": frames, "src_lengths": lengths, "prev_output_tokens": target},
        "target": target,
        "target_lengths": torch.tensor([4, 3, 2]),
        "ntokens": 9,
        "nsentences": 3,
    }


def count_probability(probabilities, labels):
    """The probability of all ways to write labels, one of T steps after the other: [T, tokens] -> a number, by hand."""
    extended = [0] + [token for label in labels for token in (label, 0)]  # blanks around each label
    alpha = [0.0] * len(extended)
    for step, row in enumerate(probabilities):
        before = alpha if step else [1.0] + [0.0] * (len(extended) - 1)
        alpha = []
        for place, token in enumerate(extended):
            ways = before[place] + (before[place - 1] if place > 0 else 0.0)
            if place > 1 and token != 0 and token != extended[place - 2]:
                ways += before[place - 2] if step else 0.0
            alpha.append(ways * row[token])
    return alpha[-1] + alpha[-2]


@pytest.mark.parametrize("options", [{}, {"stack_frames": 2}, {"conv_kernel_sizes": "3"}], ids=str)
def test_ctc_loss(options, monkeypatch):
    """That of a count by hand, over the model's steps and the words without the end of sentence."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)  # as if editdistance were installed
    task, sample = make_task(), make_sample()
    model = build("skip_lstm_ctc", task, dropout=0.0, **options)
    loss, sample_size, logged = CtcCriterion(CtcCriterionConfig(sentence_avg=True), task)(model, sample)
    assert sample_size == 3 and sorted(sample) == sorted(make_sample())  # the sample is as it was
    output = model(sample["net_input"]["src_tokens"], sample["net_input"]["src_lengths"])
    expected = 0.0
    for row, words in enumerate(("aab", "fc", "d")):
        steps = int((~output["padding_mask"][row]).sum())
        probabilities = output["encoder_out"][:steps, row].softmax(-1).tolist()
        labels = [task.target_dictionary.index(word) for word in words]
        expected -= math.log(count_probability(probabilities, labels))
    assert loss.item() == pytest.approx(expected, rel=1e-4)
    loss.backward()
    assert model.projection.weight.grad.isfinite().all()


def test_ctc_asks_for_its_criterion():
    criterion = LabelSmoothedCrossEntropyCriterion(make_task(), False, 0.1)
    message = "^--criterion: expected ctc for an architecture that ends in _ctc, got .* ends in _s2t goes with it$"
    with pytest.raises(ValueError, match=message):
        criterion(build("skip_lstm_ctc"), make_sample())


def test_ctc_refuses_a_decoder():
    message = "^--arch: expected an architecture that ends in _ctc for criterion ctc, got one that ends in _s2t$"
    with pytest.raises(ValueError, match=message):
        CtcCriterion(CtcCriterionConfig(sentence_avg=True), make_task())(build("full_gru_s2t"), make_sample())


def test_ctc_says_what_it_needs(monkeypatch):
    """Before the first epoch is trained, not when it is validated."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="^--criterion ctc: .*pip install editdistance, or .*speech$"):
        CtcCriterion(CtcCriterionConfig(sentence_avg=True), make_task())(build("skip_lstm_ctc"), make_sample())


def test_greedy_transcripts():
    """Equal neighbours are one token, blanks none; padding is not read; two models have the mean of their
    probabilities."""
    task, steps = make_task(), ["aa-ab--", "-bb-b", "-", ""]
    index = {"-": 0, **{word: task.target_dictionary.index(word) for word in "abcdef"}}
    frames, lengths = torch.zeros(4, 7, 3), torch.tensor([7, 5, 1, 0])
    logits = torch.zeros(7, 4, 10)
    for row, text in enumerate(steps):
        for step in range(7):
            logits[step, row, index[text[step] if step < len(text) else "c"]] = 2.0
    padding = torch.arange(7) >= lengths.unsqueeze(1)

    def answer(model, logits):
        model.forward = lambda **inputs: {"encoder_out": logits, "padding_mask": padding}
        return model.eval()

    model, doubter = answer(build("full_gru_ctc"), logits), answer(build("full_gru_ctc"), logits.flip(0) * 0.1)
    generator = model.build_generator(task)
    sample = {"net_input": {"src_tokens": frames, "src_lengths": lengths, "prev_output_tokens": None}}
    for models in ([model], [model, doubter]):
        hypotheses = [hypothesis for (hypothesis,) in generator.generate(models, sample)]
        expected = [[index[word] for word in text] + [task.target_dictionary.eos()] for text in ("aab", "bb", "", "")]
        assert [hypothesis["tokens"].tolist() for hypothesis in hypotheses] == expected
        assert all(len(found["positional_scores"]) == len(found["tokens"]) for found in hypotheses)
    expected = (torch.softmax(logits, -1) + torch.softmax(logits.flip(0) * 0.1, -1))[0, 2, 0].div(2).log()
    torch.testing.assert_close(hypotheses[2]["score"], expected)
    assert hypotheses[3]["score"] == 0


def test_models_of_criterion_ctc_that_can_not_generate_together():
    task, ctc, s2t = make_speech_to_text(), build("skip_gru_ctc"), build("skip_gru_s2t")
    generator_of = partial(FairseqTask.build_generator, task)
    for models in ([ctc, s2t], [s2t, ctc]):
        with pytest.raises(ValueError, match="^--path: expected models of one kind, got some with a decoder"):
            generator_of(models, Namespace())
    with pytest.raises(ValueError, match="^--score-reference: expected models with a decoder"):
        generator_of([ctc], Namespace(score_reference=True))
    frames, lengths = make_frames()
    sample = {"net_input": {"src_tokens": frames, "src_lengths": lengths}}
    models = [build("skip_gru_ctc", stack_frames=number).eval() for number in (1, 2)]
    with pytest.raises(ValueError, match="^--path: expected models that make equally many steps"):
        generator_of(models, Namespace()).generate(models, sample)
