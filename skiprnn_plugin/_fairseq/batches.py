"""Workarounds for fairseq's batches, as a mixin for tasks."""

from fairseq import utils


class EverySequence:
    """A mixin for a ``FairseqTask``, which it must precede in the list of bases: no sequence is left out of the batches
    without a message."""

    def get_batch_iterator(self, *args, **kwargs):
        """fairseq's method, with three differences, each needed until fairseq does so itself.

        - Every sequence is in a batch. fairseq's default ``--required-batch-size-multiple`` of 8 would silently drop
          the sequences that are left over at the end.
        - Worker processes live for one epoch, because they hold a copy of that epoch's data. Persistent workers would
          repeat the first epoch's data for ever.
        - A sequence longer than ``max_tokens`` is treated like one longer than ``max_positions``. fairseq does so only
          in training.
        """
        kwargs["required_batch_size_multiple"] = 1
        if kwargs.get("max_tokens") is not None:
            kwargs["max_positions"] = utils.resolve_max_positions(kwargs.get("max_positions"), kwargs["max_tokens"])
        iterator = super().get_batch_iterator(*args, **kwargs)
        if not hasattr(iterator, "persistent_workers"):  # fairseq 0.12.2 keeps workers as long as it keeps the iterator
            iterator.reuse_dataloader = False
        iterator.persistent_workers = False
        return iterator

    def filter_indices_by_size(self, indices, dataset, max_positions=None, ignore_invalid_inputs=False):
        """Leave out sequences that are too long, with a warning that says how many.

        Raises ValueError if no sequence would be left, or if invalid inputs are not to be ignored.
        """
        kept = super().filter_indices_by_size(indices, dataset, max_positions, ignore_invalid_inputs=True)
        long = len(indices) - len(kept)
        if long and (not ignore_invalid_inputs or len(kept) == 0):
            skip = "" if ignore_invalid_inputs else ", or skip them with --skip-invalid-size-inputs-valid-test"
            raise ValueError(
                f"--max-tokens: {long} of {len(indices)} sequences are longer than {max_positions}: raise it{skip}"
            )
        return kept
