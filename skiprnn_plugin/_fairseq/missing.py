"""What to say where fairseq is not installed. Only ``skiprnn_plugin.modules`` and ``skiprnn_plugin.ops`` work then."""

from typing import Optional

# fairseq, and what comes with it
PACKAGES = ("fairseq", "fairseq_cli", "omegaconf", "hydra", "tqdm")


def explain(error: ModuleNotFoundError) -> Optional[str]:
    """The error in one line, if it is fairseq that is missing; otherwise None."""
    name = (error.name or "").partition(".")[0]
    if name not in PACKAGES:
        return None
    return (
        f"needs fairseq ({name} is not installed): pip install ve-fairseq 'hydra-core<1.4' installs it (Python 3.10: "
        "fairseq); without it, skiprnn_plugin.modules and skiprnn_plugin.ops work"
    )
