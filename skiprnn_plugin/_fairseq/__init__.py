"""Workarounds for fairseq bugs: for each, what goes wrong without it and when it is no longer needed."""
