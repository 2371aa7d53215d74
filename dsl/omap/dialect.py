"""The dialect of oblivious maps: `map name(...)`; in Python they are declared by `ps.ObliviousMap`."""

from pathlib import Path

from ..dialect import Dialect, Words
from .front import TextMap
from .kernel import MapKernel

DIALECT = Dialect(
    keyword="map",
    kinds=("u64", "bytes", "text"),
    functions={},
    kernel=MapKernel,
    python=None,
    text=TextMap,
    options=None,
    words=Words(
        one="a map",
        usage="ps.ObliviousMap(key=ps.u64, value=ps.bytes(8), capacity=1000)",
        header="key: u64, value: bytes[8]",
        example=("ps.u64", "u64"),
        returns="",
        does="holds items whose accesses show nothing",
        purpose="items are held by an oblivious map",
        no_function="a map has a capacity alone, a number: `capacity = 1000`",
        no_kind="a map's parameters are its key and its value: `map name(key: u64, value: bytes[8])`",
        no_statement="a map has a capacity alone: leave it out",
    ),
    declares=("ObliviousMap", "u64", "bytes", "text"),
    pages=Path(__file__).with_name("pages"),
    groups={"E47": "Oblivious maps"},
)
