"""Finds the packages: `src/penstock`, and the folders beside it, which install as sub-packages of it. All else is in `pyproject.toml`."""

from setuptools import find_packages, setup

FOLDERS = ("boards", "dsl", "hdl", "host", "models", "sim")

setup(
    packages=[
        *find_packages("src"),
        *(
            f"penstock.{name}"
            for name in find_packages(
                include=[pattern for folder in FOLDERS for pattern in (folder, f"{folder}.*")]
            )
        ),
    ],
    package_dir={"penstock": "src/penstock"} | {f"penstock.{folder}": folder for folder in FOLDERS},
)
