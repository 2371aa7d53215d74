"""What an engine looks like to the shell."""

from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from ..stream.monitor import monitor_shape

__all__ = ["engine_members", "report_shape", "restarted"]

#: where a run failed: `models.errors.ErrorCode`, page index, line pointer, which value of the line
report_shape = data.StructLayout({"code": 8, "block": 32, "line": 16, "item": 32})


def engine_members(register_map, ports):
    """The members of an engine's signature; the engine's component may have no others.

    Parameters
    ----------
    register_map
        The engine's `models.shell.RegisterMap`.
    ports
        `hdl.memory.AXI4` signatures of its memory ports, in order.

    Members
    -------
    start : In(1)
        High for one cycle: cycle 0 of the run. The engine is then in its reset state: the shell resets it after every run.
    done : Out(1)
        High for one cycle when all results are written and answered. Reads may still be in flight (data fetched in vain): the
        shell drains them. In cycle `cycles` of the run, which may be 0, the cycle of `start`; looked at in no other cycles than those of a run.
    error : Out(1), report : Out(report_shape)
        High for one cycle, with the reason: ends the run as failed, from cycle 0 on as `done` does. The engine need not clean up. Wins
        over `done` in the same cycle.
    registers : In(struct)
        Values of the engine's registers, constant from `start` to the end of the run.
    counters : Out(struct)
        How much each event counter grows in this cycle; from cycle 1 to the end of the run.
    monitors : Out(struct)
        Streams for the watchdog report; assign them with `hdl.stream.observe`.
    m0, m1, … : Out(AXI4)
        The memory ports.

    `registers`, `counters` and `monitors` are absent where the map has none.

    An engine whose pipelines have valid bits without reset says in `settling` (1 where it does not) how many cycles of reset empty them: so long is it
    held in reset after a run that was stopped or failed.

    An engine names in `copiers` (none where it does not) the numbers of the ports through which it
    copies without room for a whole burst; `hdl.memory.Arbiter` takes one such port at most.
    """
    members = {"start": In(1), "done": Out(1), "error": Out(1), "report": Out(report_shape)}
    if register_map.engine:
        members["registers"] = In(data.StructLayout({r.name: r.bits for r in register_map.engine}))
    if register_map.counters:
        members["counters"] = Out(
            data.StructLayout({c.name: c.step_bits for c in register_map.counters})
        )
    if register_map.monitors:
        members["monitors"] = Out(
            data.StructLayout({w.name: monitor_shape(w.level_bits) for w in register_map.monitors})
        )
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
