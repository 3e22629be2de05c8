"""Imports the plugin when hydra starts, as hydra imports all modules in ``hydra_plugins``.

So fairseq-hydra-train has the plugin's workarounds for fairseq bugs before it decides how many processes to start. It
imports ``common.user_dir`` too late for that.
"""

import skiprnn_plugin  # noqa: F401
from skiprnn_plugin._fairseq import backports

backports.know_where_hydra_runs()
