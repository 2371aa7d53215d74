"""A host before a shell in Amaranth's simulator."""

from __future__ import annotations

from penstock.hdl.shell import Shell

__all__ = ["Host"]


class Host:
    """Writes and reads the registers of a shell."""

    def __init__(self, ctx, dut: Shell) -> None:
        self.ctx, self.dut = ctx, dut
        self.offset = {r.name: r.offset for r in dut.register_map.registers}

    def port(self, member: str):
        return getattr(self.dut, f"s_axil_{member}")

    async def write(self, name: str, value: int, *, late: int = 0, strobe: int = 15) -> None:
        """Write a register, bytes of it; its data come `late` cycles after its address."""
        ctx = self.ctx
        ctx.set(self.port("bready"), 1)
        ctx.set(self.port("awaddr"), self.offset[name])
        ctx.set(self.port("awvalid"), 1)
        while not ctx.get(self.port("awready")):
            await ctx.tick()
        await ctx.tick()
        ctx.set(self.port("awvalid"), 0)
        for _ in range(late):
            await ctx.tick()
        for member, given in (("wdata", value), ("wstrb", strobe), ("wvalid", 1)):
            ctx.set(self.port(member), given)
        while not ctx.get(self.port("wready")):
            await ctx.tick()
        await ctx.tick()
        ctx.set(self.port("wvalid"), 0)
        while not ctx.get(self.port("bvalid")):
            await ctx.tick()
        await ctx.tick()

    async def read(self, name: str) -> int:
        ctx = self.ctx
        ctx.set(self.port("araddr"), self.offset[name])
        ctx.set(self.port("arvalid"), 1)
        ctx.set(self.port("rready"), 1)
        while not ctx.get(self.port("arready")):
            await ctx.tick()
        await ctx.tick()
        ctx.set(self.port("arvalid"), 0)
        while not ctx.get(self.port("rvalid")):
            await ctx.tick()
        value = ctx.get(self.port("rdata"))
        await ctx.tick()
        return value

    async def rest(self, limit: int = 100) -> int:
        """Wait until the shell is at rest; return the cycles that this took, fewer than `limit`."""
        cycles = 0
        while self.ctx.get(self.dut.busy):
            await self.ctx.tick()
            cycles += 1
            assert cycles < limit
        return cycles
