"""hydra imports this when it starts.

So fairseq-hydra-train has the plugin and its workarounds for fairseq before it decides how many processes to start;
``common.user_dir`` is imported too late for that.
"""

import skiprnn_plugin  # noqa: F401
