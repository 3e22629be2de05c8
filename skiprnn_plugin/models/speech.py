"""The encoder of the plugin's models for speech: a Skip RNN that reads frames, as fairseq's task ``speech_to_text`` has
them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, List, Optional, Tuple

import torch
from fairseq import checkpoint_utils
from fairseq.models.speech_to_text.s2t_transformer import Conv1dSubsampler
from torch import Tensor, nn

from ..arguments import as_option, check_size
from ..ops import SkipState
from ..reading import first_sentence
from .attention import EncoderOut
from .encoder import EncoderConfig, SkipRNNEncoder, hash_multipliers, hash_sequences
from .recurrence import fit_gate


@dataclass
class SpeechConfig(EncoderConfig):
    """Options of an encoder, and those of what makes steps of frames."""

    encoder_embed_dim: int = field(default=512, metadata={"help": "features that the last convolution returns"})
    stack_frames: int = field(
        default=1, metadata={"help": "neighbouring frames that are joined to one step, which is read or skipped whole"}
    )
    conv_kernel_sizes: Optional[str] = field(
        default=None,
        metadata={
            "help": "kernel sizes of the convolutions of fairseq's s2t_transformer, each of which halves the number of "
            "steps, as in 5,5 (default: no convolutions)"
        },
    )
    conv_channels: int = field(default=1024, metadata={"help": "channels between the convolutions"})
    load_pretrained_encoder_from: Optional[str] = field(
        default=None, metadata={"help": "checkpoint to take the encoder's initial weights from"}
    )
    input_feat_per_channel: int = field(
        default=80, metadata={"help": "features of a frame; speech_to_text takes them from its configuration instead"}
    )
    input_channels: int = field(
        default=1, metadata={"help": "channels of a frame; speech_to_text takes them from its configuration instead"}
    )
    speaker_to_id: Any = field(default=None, metadata={"help": "not used; speech_to_text sets it"})


class SkipRNNSpeechEncoder(SkipRNNEncoder):
    """Frames -> stacked frames -> convolutions (if there are any) -> dropout -> Skip RNN -> dropout.

    Args:
        cfg: the options.
        memory: ``attend_updates`` and ``cell_from_h`` of :class:`SkipRNNEncoder`.

    Raises:
        ValueError: an option with a wrong value; the message names it.
    """

    def __init__(self, cfg: SpeechConfig, **memory: bool):
        sizes = ("stack_frames", "input_feat_per_channel", "input_channels", "encoder_embed_dim", "conv_channels")
        for name in sizes:
            check_size(as_option(name), getattr(cfg, name))
        size, subsample = cfg.stack_frames * cfg.input_feat_per_channel * cfg.input_channels, None
        if cfg.conv_kernel_sizes:
            if cfg.conv_channels % 2:
                raise ValueError(f"--conv-channels: expected an even number, got {cfg.conv_channels}")
            kernels = _read_kernel_sizes(cfg.conv_kernel_sizes)
            subsample = Conv1dSubsampler(size, cfg.conv_channels, cfg.encoder_embed_dim, kernels)
            size = cfg.encoder_embed_dim
        super().__init__(cfg, None, size, **memory)
        self.stack_frames = cfg.stack_frames
        self.subsample = subsample

    def forward(self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None, **kwargs) -> EncoderOut:
        """Read frames for a decoder. The arguments are those of :meth:`read`."""
        return self.attend(*self.read(src_tokens, src_lengths))

    def read(
        self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None
    ) -> Tuple[Tensor, SkipState, Tensor, Tensor]:
        """The Skip RNN's output before dropout, its last state and its updates, and where the steps are padding, bool
        [B, T']. T' is T divided by ``--stack-frames``, and by 2 for each convolution, rounded up each time.

        Args:
            src_tokens: frames, [B, T, features]; what is behind a sequence's length has no effect.
            src_lengths: frames of each sequence, int64 [B]; None means T.
        """
        if src_lengths is None:
            src_lengths = torch.full(src_tokens.shape[:1], src_tokens.shape[1], device=src_tokens.device)
        padding = _padding(src_tokens, src_lengths)
        frames = src_tokens.masked_fill(padding.unsqueeze(-1), 0)
        seeds = hash_sequences(_hash_frames(frames), padding) if self.decisions.exist and not self.training else None
        x, lengths = self._make_steps(frames.to(self.rnn.initial_h.dtype), src_lengths)
        padding = _padding(x, lengths)
        return *self.run(x, padding, seeds), padding

    def _make_steps(self, x: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor]:
        """The steps that the Skip RNN reads, 0 at padding, and their numbers."""
        if self.stack_frames > 1:
            missing = -x.shape[1] % self.stack_frames
            x = nn.functional.pad(x, (0, 0, 0, missing)).reshape(len(x), -1, self.stack_frames * x.shape[2])
            lengths = (lengths + self.stack_frames - 1) // self.stack_frames
        for convolution in [] if self.subsample is None else self.subsample.conv_layers:
            # As Conv1dSubsampler, which would let the next convolution see what this one makes of padding
            x = nn.functional.glu(convolution(x.transpose(1, 2)), 1).transpose(1, 2)
            lengths = (lengths + 1) // 2
            x = x.masked_fill(_padding(x, lengths).unsqueeze(-1), 0)
        return x, lengths

    def load_pretrained(self, path: str) -> None:
        """Take the weights of the encoder of a checkpoint. A gate that it does not have keeps its own.

        Raises:
            ValueError: the checkpoint's encoder is a different one.
        """
        state = checkpoint_utils.load_checkpoint_to_cpu(path)["model"]
        weights = {key.partition(".")[2]: value for key, value in state.items() if key.startswith("encoder.")}
        fit_gate(weights, "rnn.", self.rnn)
        try:
            self.load_state_dict(weights)
        except RuntimeError as error:
            reason = first_sentence(str(error).partition("\n")[2].strip())
            raise ValueError(
                f"--load-pretrained-encoder-from: expected a checkpoint with the same encoder, got {path} ({reason})"
            ) from None


class LoadsEncoder:
    """A model whose encoder can start from the weights of another one, by ``--load-pretrained-encoder-from``."""

    encoder_error: Optional[str] = None

    def load_encoder(self, cfg: SpeechConfig) -> None:
        """Load the checkpoint that the options name. A trained model, which has the weights already, does not need it:
        a file that is missing or of another encoder is an error only when training starts."""
        path = cfg.load_pretrained_encoder_from
        if not path:
            return
        if not Path(path).is_file():
            self.encoder_error = (
                f"--load-pretrained-encoder-from: expected a checkpoint, got {path!r}, where there is no file"
            )
            return
        try:
            self.encoder.load_pretrained(path)
        except ValueError as error:
            self.encoder_error = str(error)

    def check_before_training(self) -> None:
        """Raise ValueError if the encoder could not start from the checkpoint that the options name."""
        if self.encoder_error is not None:
            raise ValueError(self.encoder_error)


def _padding(x: Tensor, lengths: Tensor) -> Tensor:
    """True behind the length of each sequence, bool [B, T]."""
    return torch.arange(x.shape[1], device=x.device) >= lengths.unsqueeze(1)


def _hash_frames(frames: Tensor) -> Tensor:
    """A hash of each frame, which depends on all of its features, int64 [B, T]."""
    bits = frames.float().contiguous().view(torch.int32).long()
    return (bits * hash_multipliers(frames.shape[2], frames.device)).sum(2)


def _read_kernel_sizes(text: str) -> List[int]:
    try:
        return [check_size("--conv-kernel-sizes", int(size)) for size in text.split(",")]
    except ValueError:
        raise ValueError(f"--conv-kernel-sizes: expected integers of at least 1 as in 5,5, got {text!r}") from None
