"""Finds the packages: `src/penstock`, and the folders beside it, which install as sub-packages of it. All else is in `pyproject.toml`."""

import shutil

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

FOLDERS = ("boards", "dsl", "hdl", "host", "models", "sim")


class Build(build_py):
    """Begins with an empty folder: modules of an earlier build do not come along."""

    def run(self):
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


setup(
    cmdclass={"build_py": Build},
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
