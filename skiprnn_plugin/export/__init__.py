"""Writes a trained model to files that need neither fairseq nor Python: safetensors, ONNX, a C header, a program of
torch.export. ``skiprnn-export`` is the command. ``onnx_translations`` is for ``torch.onnx.export`` of your own models.
"""

from .onnx_translation import onnx_translations

__all__ = ["onnx_translations"]
