"""Files of the library safetensors: the weights under torch's names, and in the metadata all that is needed to use
them, in any language. examples/c reads such a file."""

from typing import Dict

import numpy as np

from .parts import Parts

FORMAT_VERSION = "1"


def make_metadata(parts: Parts) -> Dict[str, str]:
    """The metadata, all text: ``format`` (skiprnn), ``format_version``, ``cell``, ``input_size``, ``hidden_size``,
    ``num_layers``, ``output_size``, ``threshold``, ``predicts`` and ``per_step``; ``gate_layers`` (layers separated by
    commas) and ``classes`` (a line for each)."""
    return {
        "format": "skiprnn",
        "format_version": FORMAT_VERSION,
        "cell": parts.cell,
        "input_size": str(parts.input_size),
        "hidden_size": str(parts.hidden_size),
        "num_layers": str(parts.num_layers),
        "output_size": str(parts.output_size),
        "gate_layers": ",".join(map(str, parts.gate_layers)),
        "threshold": repr(parts.threshold),
        "predicts": parts.predicts,
        "per_step": str(parts.per_step).lower(),
        "classes": "\n".join(parts.class_names),
    }


def make_safetensors(parts: Parts) -> bytes:
    """The content of the file. ``mean`` and ``std`` are float64 [D], in files of models that normalise; all else is
    float32."""
    from safetensors.numpy import save

    tensors: Dict[str, np.ndarray] = dict(parts.tensors)
    if parts.mean is not None:
        tensors.update(mean=parts.mean, std=parts.std)
    return save({name: np.ascontiguousarray(array) for name, array in tensors.items()}, make_metadata(parts))
