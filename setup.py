from pathlib import Path

from setuptools import find_namespace_packages, find_packages, setup

ROOT = Path(__file__).parent
VERSION = next(
    line.split('"')[1]
    for line in (ROOT / "skiprnn_plugin" / "__init__.py").read_text().splitlines()
    if line.startswith("__version__")
)
PLOT = ["matplotlib>=3.5"]

setup(
    name="skiprnn-plugin",
    version=VERSION,
    description="Skip RNN (Campos et al., ICLR 2018) for fairseq: RNNs that learn which elements of a sequence to read",
    long_description=(ROOT / "README.md").read_text(),
    long_description_content_type="text/markdown",
    license="MIT",
    packages=[
        *find_packages(include=["skiprnn_plugin", "skiprnn_plugin.*"]),
        *find_namespace_packages(include=["hydra_plugins.*"]),
    ],
    package_data={"skiprnn_plugin": ["py.typed", "config/*.yaml", "config/*/*.yaml"]},
    python_requires=">=3.10",
    install_requires=[
        # On Python 3.11 and later fairseq 0.12.2 fails at import; ve-fairseq is its main branch with that mended.
        "fairseq>=0.12.2; python_version < '3.11'",
        "ve-fairseq>=0.12.3; python_version >= '3.11'",
        "hydra-core>=1.0.7,<1.4",  # 1.4 has no hydra.experimental, which fairseq imports
        "numpy",
        "torch>=2.11,<2.14",  # all tests have run on 2.13, those of ops and modules on 2.11 too
        "tqdm",
    ],
    extras_require={
        "plot": PLOT,
        "dev": PLOT + ["pytest>=7", "ruff==0.17.6"],
        "bench": ["onnx==1.23.2", "onnxruntime==1.32.0"],  # peers of python -m benchmarks.run
    },
    entry_points={
        "console_scripts": [
            "skiprnn-report = skiprnn_plugin.cli.report:main",
            "skiprnn-plot = skiprnn_plugin.cli.plot:main",
        ]
    },
    classifiers=[
        "License :: OSI Approved :: MIT License",
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
