"""Hardware as the device of a `penstock.host.omap.process.DeviceProcess`: its program."""

import sys

from penstock.host.omap.process import run_device

from .machines import hardware
from .native import NativeDevice

if __name__ == "__main__":
    keys, backend, *rest = sys.argv[1:]
    state, *family = rest
    options = dict(zip(("family",), family, strict=False))
    if backend == "native":
        sys.exit(run_device(keys, NativeDevice))
    sys.exit(run_device(keys, hardware(backend, state=bool(int(state)), **options)))
