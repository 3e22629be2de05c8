"""The model ``lstm_classifier`` for fairseq's task ``sentence_prediction``, configured by argparse.

It was written with an ``nn.LSTM``; comments show the lines as they were.
"""

from fairseq.models import BaseFairseqModel, register_model, register_model_architecture
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from skiprnn_plugin import SkipLSTM  # new


@register_model("lstm_classifier")
class LSTMClassifier(BaseFairseqModel):
    """Embedding -> LSTM -> a linear head on the last state."""

    @staticmethod
    def add_args(parser):
        parser.add_argument("--embed-dim", type=int, help="size of the embeddings")
        parser.add_argument("--hidden-size", type=int, help="units of the LSTM")

    def __init__(self, args, dictionary):
        super().__init__()
        self.embedding = nn.Embedding(len(dictionary), args.embed_dim, dictionary.pad())
        # was: self.lstm = nn.LSTM(args.embed_dim, args.hidden_size, batch_first=True)
        self.lstm = SkipLSTM(args.embed_dim, args.hidden_size, gate_init="zeros")
        self.classification_heads = nn.ModuleDict()

    @classmethod
    def build_model(cls, args, task):
        return cls(args, task.source_dictionary)

    def register_classification_head(self, name, num_classes):
        """The task calls it after it has built the model."""
        self.classification_heads[name] = nn.Linear(self.lstm.hidden_size, num_classes)

    def forward(self, src_tokens, src_lengths, features_only=True, classification_head_name=None):
        """Classify ``src_tokens``, [B, T], which are padded on the right."""
        x = pack_padded_sequence(self.embedding(src_tokens), src_lengths.cpu(), batch_first=True, enforce_sorted=False)
        # was: _, (h, _) = self.lstm(x)
        _, (h, *_), _ = self.lstm(x)
        return self.classification_heads[classification_head_name](h[-1]), None


@register_model_architecture("lstm_classifier", "lstm_classifier")
def lstm_classifier(args):
    args.embed_dim = getattr(args, "embed_dim", 32)
    args.hidden_size = getattr(args, "hidden_size", 64)
