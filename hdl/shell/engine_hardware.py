"""What an engine looks like to the shell."""

from collections.abc import Collection
from typing import Protocol

from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from ...models.memory import Writer
from ...models.shell import RegisterMap
from ..stream.monitor import monitor_shape

#: where a run failed: `models.errors.ErrorCode`, page index, line pointer, which value of the line
report_shape = data.StructLayout({"code": 8, "block": 32, "line": 16, "item": 32})


class EngineHardware(Protocol):
    """What shell and device read of an engine's component, beside the members that `engine_members` names.

    A component that says nothing of the last three has the values below; inheriting is not asked for.
    """

    #: the engine's registers, counters, monitors and error codes
    register_map: RegisterMap
    #: cycles of reset after which no pipeline holds a valid bit any more: so long is it held in
    #: reset after a run that was stopped or failed. 1 where all valid bits are reset.
    settling: int = 1
    #: write bursts of a port whose address may be out while data are missing;
    #: `models.memory.Writer` counts with as many for a `BurstWriter`
    open_writes: int = Writer.AHEAD
    #: numbers of the ports through which it copies without room for a whole burst;
    #: `hdl.memory.Arbiter` takes one such port at most
    copiers: Collection[int] = ()


def engine_members(register_map, ports):
    """The members of an engine's signature; the engine's component may have no others.

    Beside them the component has the attributes of `EngineHardware`.

    * `register_map`: the engine's `models.shell.RegisterMap`.
    * `ports`: `hdl.memory.AXI4` signatures of its memory ports, in order.
    """
    members = {
        # high for one cycle: cycle 0 of the run. The engine is then in its reset state: the shell
        # resets it after every run.
        "start": In(1),
        # high for one cycle when all results are written and answered. Reads may still be in flight
        # (data fetched in vain): the shell drains them. In cycle `cycles` of the run, which may be
        # 0, the cycle of `start`; looked at in no other cycles than those of a run.
        "done": Out(1),
        # high for one cycle, with the reason: ends the run as failed, from cycle 0 on as `done`
        # does. The engine need not clean up. Wins over `done` in the same cycle.
        "error": Out(1),
        "report": Out(report_shape),
    }
    if register_map.engine:
        # values of the engine's registers, constant from `start` to the end of the run
        members["registers"] = In(data.StructLayout({r.name: r.bits for r in register_map.engine}))
    if register_map.counters:
        # how much each event counter grows in this cycle; from cycle 1 to the end of the run
        members["counters"] = Out(
            data.StructLayout({c.name: c.step_bits for c in register_map.counters})
        )
    if register_map.monitors:
        # streams for the watchdog report; assign them with `hdl.stream.observe`
        members["monitors"] = Out(
            data.StructLayout({w.name: monitor_shape(w.level_bits) for w in register_map.monitors})
        )
    if register_map.vault:
        # `valid`, which stays once it is high, and the vault's values, constant from then on: no
        # reset and no register of the host's changes them
        values = {value.name: value.bits for value in register_map.vault}
        members["vault"] = In(data.StructLayout({"valid": 1} | values))
    return members | {f"m{k}": Out(port) for k, port in enumerate(ports)}


def restarted(body: Module) -> Module:
    """An engine's module around what it is made of, which the shell's reset reaches although it may hold `Instance`s.

    Instances know no ResetInserter: everything lives in a domain of its own, into whose reset the shell's becomes, all in the same cycle, one cycle late.
    """
    m = Module()
    fresh = Signal(init=1)
    m.d.sync += fresh.eq(0)
    m.domains.run = ClockDomain("run", local=True)
    m.d.comb += [
        ClockSignal("run").eq(ClockSignal("sync")),
        ResetSignal("run").eq(ResetSignal("sync") | fresh),
    ]
    m.submodules.run = DomainRenamer("run")(body)
    return m
