"""Imports fairseq for the parts that need it; where it is missing, the error says so in one line, and what to do."""

from ..quiet import quiet_imports

try:
    with quiet_imports():  # fairseq sets up the root logger, which is the program's own
        import fairseq  # noqa: F401  (it registers the plugin; that must be finished before the importer's parts load)
except ModuleNotFoundError as error:
    from .missing import explain

    message = explain(error)
    if message is None:  # fairseq is installed, but lacks something else
        raise
    raise ModuleNotFoundError(message, name=error.name) from None
