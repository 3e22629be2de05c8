"""hydra imports this at its start. So fairseq-hydra-train has the plugin, and what it mends, before it decides about
processes, where ``common.user_dir`` comes too late."""

import skiprnn_plugin  # noqa: F401
