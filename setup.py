import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from glob import glob
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

ROOT = Path(__file__).parent
VERSION = next(
    line.split('"')[1]
    for line in (ROOT / "skiprnn_plugin" / "version.py").read_text(encoding="utf-8").splitlines()
    if line.startswith("__version__")
)
PLOT = ["matplotlib>=3.7"]  # the first version with legends outside the axes
TEXT = ["sentencepiece>=0.2", "gensim>=4.3"]
VIDEO = [
    "av>=16,<19",  # 19 returns another value for an unknown frame rate
    "torchvision>=0.26",  # for torch 2.11; every torchvision needs the torch version that it was built for
]

# Kernels of the triton engine run on the CPU and are compiled for GPUs in tests. CUDA builds of torch need one version
# of triton each (torch 2.11: 3.6.0, 2.13: 3.7.1); the CPU builds need none.
TRITON = ["triton>=3.6,<3.8; platform_system == 'Linux' and platform_machine == 'x86_64'"]
EXPORT = ["onnx>=1.16", "safetensors>=0.4"]  # safetensors for .safetensors, onnx for .onnx
DOCS = ["mkdocs>=1.6,<2", "mkdocs-material>=9.5,<10", "mkdocstrings[python]>=0.29,<2"]

NATIVE = "skiprnn_plugin/ops/native"
NATIVE_FLAGS = "-std=c++17 -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno -fno-lto -pthread".split()
DISPATCH_FLAGS = []
# kernels.cpp is compiled once for each instruction set; dispatch.cpp chooses at run time. The baseline comes first, as
# the linker keeps the first copy of an inline function.
LEVELS = {"baseline": []}
if sysconfig.get_platform().endswith("x86_64"):
    DISPATCH_FLAGS = ["-DSKIPRNN_X86_LEVELS"]
    LEVELS["avx2"] = ["-mavx2", "-mfma"]
    LEVELS["avx512"] = ["-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", *LEVELS["avx2"]]
    LEVELS["avx512vnni"] = ["-mavx512vnni", *LEVELS["avx512"]]  # multiplies int8 weights faster
LINK_FLAGS = ["-shared"]
OWN_LIBSTDCXX = []
if sys.platform == "linux":
    LINK_FLAGS.append("-Wl,-z,nodelete")  # dlclose must not unload the library while its threads wait in its code
    # The libstdc++ found at run time may be older than the compiler's.
    OWN_LIBSTDCXX = ["-static-libstdc++", "-Wl,-Bsymbolic,--gc-sections,--exclude-libs,ALL"]


class BuildNative(build_ext):
    """Builds the native engine's library, a plain shared library for ctypes. If that fails, the installation says why
    and continues without the library.

    The environment variables CXX, CPPFLAGS, CXXFLAGS and LDFLAGS are used, but not the flags with which Python was
    built: in distributions these may contain link-time optimisation or a minimal processor, which would mix the
    instruction sets.
    """

    def get_ext_filename(self, fullname):
        return os.path.join(*fullname.split(".")) + (".dylib" if sys.platform == "darwin" else ".so")

    def get_outputs(self):
        return [path for path in super().get_outputs() if os.path.exists(path)]

    def get_output_mapping(self):
        return {path: source for path, source in super().get_output_mapping().items() if os.path.exists(source)}

    def copy_extensions_to_source(self):
        for extension in self.extensions:  # if the build failed, a library of older sources must not stay
            Path(self.get_ext_filename(extension.name)).unlink(missing_ok=True)
        super().copy_extensions_to_source()

    def build_extension(self, ext):
        library = Path(self.get_ext_fullpath(ext.name))
        library.unlink(missing_ok=True)
        try:
            self._build(library)
        except OSError as error:  # shown as a warning, as the extension is optional
            raise CompileError(f"{error}. The engine auto now takes indexed, which is slower") from error

    def _build(self, library):
        if sys.platform == "win32":
            raise OSError("the native engine does not support Windows")
        compiler, objects = _compiler(), Path(self.build_temp)
        for folder in (objects, library.parent):
            folder.mkdir(parents=True, exist_ok=True)
        sources = {"dispatch.o": [*DISPATCH_FLAGS, f"{NATIVE}/dispatch.cpp"]}
        for level, flags in LEVELS.items():
            sources[f"kernels-{level}.o"] = [f"-DSKIPRNN_LEVEL={level}", *flags, f"{NATIVE}/kernels.cpp"]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda name: _call(*compiler, *sources[name], "-c", "-o", objects / name), sources))
        link = [*compiler, *LINK_FLAGS, *(objects / name for name in sources), *_flags("LDFLAGS"), "-o", library]
        try:
            _call(*link, *OWN_LIBSTDCXX)
        except OSError:  # no static libstdc++ is installed
            _call(*link)


def _compiler():
    """The C++ compiler's command with the flags for all sources. The flags that results depend on come after CXXFLAGS,
    so that CXXFLAGS can't override them."""
    names = filter(shutil.which, ("c++", "g++", "clang++"))
    command = _flags("CXX") or list(names)[:1]
    if not command:
        raise OSError("no C++ compiler found (CXX can name one)")
    return [*command, "-O3", *_flags("CPPFLAGS"), *_flags("CXXFLAGS"), *NATIVE_FLAGS]


def _flags(variable):
    return shlex.split(os.environ.get(variable, ""))


def _call(*command):
    print(shlex.join(map(str, command)), flush=True)
    if subprocess.run(command).returncode:
        raise OSError(f"{command[0]} failed, see above")


class NativeWheel(bdist_wheel):
    """A wheel for any Python and for the library's platform, or for any platform if the library was not built."""

    def get_tag(self):
        built = self.get_finalized_command("build_ext").get_outputs()
        return "py3", "none", super().get_tag()[2] if built else "any"


setup(
    name="skiprnn-plugin",
    version=VERSION,
    description="Skip RNN (Campos et al., ICLR 2018) for fairseq: RNNs that learn which elements of a sequence to read",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author="the skiprnn-plugin developers",
    url="https://arxiv.org/abs/1708.06834",
    project_urls={"Paper": "https://arxiv.org/abs/1708.06834"},
    license_expression="MIT",
    license_files=["LICENSE"],
    packages=[
        *find_packages(include=["skiprnn_plugin", "skiprnn_plugin.*"]),
        "hydra_plugins",  # a namespace; as its file is in no folder of its own, uninstalling removes the namespace too
    ],
    package_data={
        "skiprnn_plugin": [
            "py.typed",
            "config/*.yaml",
            "config/*/*.yaml",
            "cli/plot/*.mplstyle",
            "ops/native/skiprnn.h",
            "zoo/*.md",
            "zoo/*.pt",
        ]
    },
    ext_modules=[
        Extension(
            NATIVE.replace("/", ".") + ".libskiprnn",
            sources=sorted(glob(f"{NATIVE}/*.cpp")),
            depends=sorted(glob(f"{NATIVE}/*.h")),
            optional=True,
        )
    ],
    cmdclass={"build_ext": BuildNative, "bdist_wheel": NativeWheel},
    # fairseq can be installed in these: its release in 3.10, ve-fairseq in 3.11 and 3.12. CI runs with 3.11.
    python_requires=">=3.10,<3.13",
    install_requires=[
        # On Python 3.11 and later fairseq 0.12.2 can't be imported; ve-fairseq is its main branch with a fix for that.
        "fairseq>=0.12.2; python_version < '3.11'",
        "ve-fairseq>=0.12.3; python_version >= '3.11'",
        "hydra-core>=1.0.7,<1.4",  # 1.4 has no hydra.experimental, which fairseq imports
        "numpy",
        # All tests have run with 2.13; those of ops and modules also with 2.11 and 2.14, of tasks and hub with 2.14.
        "torch>=2.11,<2.15",
        "tqdm",
    ],
    extras_require={
        "plot": PLOT,
        "text": TEXT,
        "video": VIDEO,
        "export": EXPORT,
        "speech": ["editdistance>=0.8"],  # fairseq's criterion ctc counts errors with it
        "docs": DOCS,
        "dev": PLOT
        + TEXT
        + VIDEO
        + EXPORT
        + DOCS
        + TRITON
        + [
            "onnxruntime>=1.18",
            "pytest>=7",
            "pytest-xdist>=3.7",
            "ruff==0.17.6",
            "scikit-learn>=1.6",
            "setuptools>=77.0.3",
            "websockets>=13",
        ],
        "bench": ["onnx==1.23.2", "onnxruntime==1.32.0"],  # peers of python -m benchmarks.run
    },
    entry_points={
        "console_scripts": [
            "skiprnn-prepare = skiprnn_plugin.cli.prepare:main",
            "skiprnn-train = skiprnn_plugin.cli.train:main",
            "skiprnn-report = skiprnn_plugin.cli.report:main",
            "skiprnn-plot = skiprnn_plugin.cli.plot:main",
            "skiprnn-predict = skiprnn_plugin.cli.predict:main",
            "skiprnn-export = skiprnn_plugin.cli.export:main",
        ]
    },
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: C++",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
