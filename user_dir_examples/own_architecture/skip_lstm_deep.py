"""The architecture ``skip_lstm_deep``: other defaults for the model ``skip_rnn``. The command line overrides them."""

from fairseq.models import register_model_architecture


@register_model_architecture("skip_rnn", "skip_lstm_deep")
def skip_lstm_deep(args):
    args.cell = getattr(args, "cell", "lstm")
    args.num_layers = getattr(args, "num_layers", 3)
    args.hidden_size = getattr(args, "hidden_size", 64)
    args.dropout = getattr(args, "dropout", 0.2)
