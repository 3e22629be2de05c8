"""Describes the machine and the packages that the numbers were measured with."""

import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any, Dict, Optional

import torch

ROOT = Path(__file__).parent.parent
PACKAGES = ("onnx", "onnxruntime", "numpy")


def describe_machine(device: str) -> Dict[str, Any]:
    """Processor, its instruction set, cores, memory (bytes), GPU (None without one) and operating system."""
    return {
        "processor": _processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "device": torch.cuda.get_device_name() if device == "cuda" else None,
        "system": platform.platform(),
    }


def describe_versions(device: str) -> Dict[str, Optional[str]]:
    """Versions of Python, torch, ``PACKAGES`` (None if not installed), torch's oneDNN and cuDNN."""
    versions: Dict[str, Optional[str]] = {
        "python": platform.python_version(),
        "torch": torch.__version__,  # it includes the build, such as +cu130, which the package's metadata may lack
    }
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    found = re.search(r"MKL-DNN v(\S+)", torch.__config__.show())
    versions["onednn"] = found and found[1]
    versions["cudnn"] = str(torch.backends.cudnn.version()) if device == "cuda" else None
    return versions


def find_commit() -> Optional[str]:
    """The checkout's commit, followed by ``-dirty`` if files differ from it; None without git."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=40", "--dirty", "--match="]
    try:
        process = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return None
    return process.stdout.strip() or None


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith(("model name", "Model")):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
