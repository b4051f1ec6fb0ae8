"""Installs the package `bilm` and the command of the same name."""

import runpy
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent

setup(
    name="bilm",
    version=runpy.run_path(str(HERE / "bilm" / "version.py"))["__version__"],
    description="Trains ELMo's bidirectional language models, and embeds text by them",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    packages=find_packages(include=["bilm", "bilm.*"]),
    python_requires=">=3.10",
    install_requires=[
        "tensorflow>=2.16",
        "numpy>=1.26",
        "h5py>=3.10",
        "tqdm>=4.64",
        "tensorboard>=2.16",
    ],
    extras_require={
        "gpu": ["tensorflow[and-cuda]>=2.16"],
        "plot": ["matplotlib>=3.8"],
        "dev": [
            "hypothesis>=6.80",
            "matplotlib>=3.8",
            "mypy>=1.8",
            "pytest>=8",
            "pytest-xdist>=3.5",
            "ruff>=0.6",
        ],
    },
    entry_points={"console_scripts": ["bilm = bilm.cli:main"]},
    classifiers=[
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
