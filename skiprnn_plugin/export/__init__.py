"""Writes a trained model to files that need neither fairseq nor Python: safetensors, ONNX, a C header, a program of
torch.export. ``skiprnn-export`` is the command."""
