"""Run a function once a module has been imported; replace a function of a module or class."""

import functools
import importlib.abc
import importlib.util
import sys
from typing import Callable


def when_imported(name: str, callback: Callable[[], None]) -> None:
    """Call ``callback`` now if the module ``name`` is loaded, otherwise right after its first successful import.

    This function imports nothing itself. It is not an error if the module is never imported or is not installed.
    """
    if sys.modules.get(name) is not None:  # None is how Python notes a module that must not be imported
        callback()
    else:
        sys.meta_path.insert(0, _ImportWatcher(name, callback))


class _ImportWatcher(importlib.abc.MetaPathFinder):
    """Finds ``name`` as the other finders do, with a loader that calls back after the module has run."""

    def __init__(self, name: str, callback: Callable[[], None]):
        self.name = name
        self.callback = callback

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)  # so that the other finders answer
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            sys.meta_path.insert(0, self)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self.callback()

        spec.loader.exec_module = exec_module
        return spec


def replace(owner, name: str, wrap: Callable) -> None:
    """Replace a function of a module or a class by ``wrap(function)``, unless that has been done already.

    Several workarounds may replace the same function, so that the name of ``wrap``, which begins with that of the
    workaround, is noted in the attribute ``of_skiprnn_plugin``. ``functools.wraps`` hands the names noted on.
    """
    function = getattr(owner, name)
    done = getattr(function, "of_skiprnn_plugin", ())
    if wrap.__qualname__ not in done:
        wrapped = functools.wraps(function)(wrap(function))
        wrapped.of_skiprnn_plugin = (*done, wrap.__qualname__)
        static = isinstance(vars(owner)[name], staticmethod)
        setattr(owner, name, staticmethod(wrapped) if static else wrapped)
