"""What recurrences are compiled for: their sizes, requests, heads, layers and format, as given or as the data have them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.dsl.core.diagnostics import Span, error
from penstock.dsl.pim.kernel import Recurrence
from penstock.dsl.pim.recurrent import Recurrent
from penstock.engines.base import Given
from penstock.errors import not_one_of

from .options import FORMATS, misfit

#: sizes of dimensions where nothing is said
_SIZE = 64


def format_of(args: Given) -> str:
    """Return the number format. Raises KernelError (E603)."""
    if args.format is None:
        return FORMATS[0]
    chosen = str(getattr(args.format, "name", args.format))
    if chosen not in FORMATS:
        what = f"units compute in {' or '.join(FORMATS)}, not in {chosen!r}"
        raise error("E603", what, Span.whole("--format"), hint=f"write --format {FORMATS[0]}")
    return chosen


def layers_of(choice: int | Sequence[int] | None, recurrences: int) -> tuple[int, ...]:
    """Return which recurrence each layer is: as given, a number of layers of the only one, or one each. Raises OptionError."""
    if choice is None:
        return tuple(range(recurrences))
    layers = (0,) * choice if isinstance(choice, int) else tuple(choice)
    if not all(isinstance(n, int) for n in layers) or {*layers} != {*range(recurrences)}:
        which = f"numbers of recurrences, 0 to {recurrences - 1}, one a layer, each of them"
        raise not_one_of("layers", choice, [which])
    return layers


def all_sized(kernel: Recurrence, args: Given) -> list[Recurrent]:
    """Return the recurrences of a design with all their sizes. Raises KernelError."""
    dims, together = dict(args.option("dims", {})), (kernel, *kernel.others)
    known = {name for one in together for name in one.dim_names}
    kernel.check_dims({name: size for name, size in dims.items() if name not in known})
    stack = []
    for one in together:
        sizes = {name: size for name, size in dims.items() if name in one.dim_names}
        stack.append(sized(one, replace(args, options={**args.options, "dims": sizes})))
    return stack


def sized(kernel: Recurrence, args: Given) -> Recurrent:
    """Return the recurrence with all its sizes: as given, as the data have them, or 64."""
    dims = dict(args.option("dims", {}))
    if isinstance(args.data, Mapping):
        for parameter in kernel.parameters:
            value = args.data.get(parameter.name)
            shape = getattr(value, "shape", ())
            for name, size in zip(reversed(parameter.dims), reversed(shape), strict=False):
                if isinstance(name, str):
                    dims.setdefault(name, int(size))
    kernel.trace(dims)
    for name in kernel.dim_names:
        dims.setdefault(name, _SIZE)
    return kernel.trace(dims)


def heads_of(recurrent: Recurrent, args: Given) -> tuple[int, int, int]:
    """Return requests, heads, and how many heads share a cache: as given, or as the data have them. Raises E464."""
    batch, heads, few = (args.option(name) for name in ("batch", "heads", "kv_heads"))
    asked, shared = few, recurrent.of_cache if recurrent.mode == "attention" else ()
    if isinstance(args.data, Mapping):
        for name, dims in recurrent.dims:
            shape = getattr(args.data.get(name), "shape", ())
            lead = len(shape) - len(dims) - (name not in recurrent.states)
            if lead == 2:
                at = len(shape) - len(dims) - 2
                batch, count = batch or int(shape[at]), int(shape[at + 1])
                heads, few = (heads, few or count) if name in shared else (heads or count, few)
            elif lead == 0 and len(shape):
                batch, heads = batch or 1, heads or 1
    heads = heads or few or 2
    few = few or heads
    if asked and not shared:
        what = f"{recurrent.name} reads no two caches that heads could share"
        raise misfit("kv-heads", what)
    if heads % few:
        what = f"{heads} heads cannot share {few} caches alike"
        hint = f"--heads takes a multiple of {few}"
        raise misfit("kv-heads", what, hint)
    return batch or 1, heads, heads // few


def with_banks(args: Given, banks: int) -> Given:
    """Return what was given with another number of banks."""
    return replace(args, options={**args.options, "banks": banks})
