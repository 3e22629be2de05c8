"""From raw material to what a task reads: corpora to folders, and one text or video to the steps of a sequence."""

import fairseq  # noqa: F401  (registers the plugin, before a module of this package is half imported)
