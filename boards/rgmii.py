"""A gigabit PHY's pins: RGMII on an ECP5, both edges of 125 MHz; behind them GMII, a byte a cycle of domain `eth`.

Sources: RGMII 2.0 (4 bits on each edge, the low ones first; control: valid, then valid xor error), Lattice FPGA-TN-02035 (IDDRX1F, ODDRX1F, DELAYG).
"""

from amaranth.hdl import (
    Cat,
    ClockSignal,
    Const,
    Elaboratable,
    Instance,
    Module,
    ResetSignal,
    Signal,
)
from amaranth.lib import io

from ..models.target import Reserve

#: what a device on Ethernet takes beyond one on a serial line
BESIDE = Reserve(
    lut=3_634, ff=1_243, bram=5, source="synthesis for colorlight-i5-sdram beside that with a UART"
)

#: picoseconds of a step of DELAYG
_STEP = 25
_HZ = 125_000_000


class Rgmii(Elaboratable):
    """`resource` of the platform, the PHY's pins, and the clock of domain `eth`: the PHY's receive clock, by which it is sent, too.

    `rxd`, `rx_dv`, `rx_er`, `txd`, `tx_en`: as of `hdl.link.station.Ethernet`. `delay_ps`: by which what is received is late against its clock here;
    what the PHY adds itself is set by its straps.
    """

    def __init__(self, resource: str, delay_ps: int):
        self.resource, self.delay = resource, round(delay_ps / _STEP)
        self.rxd, self.rx_dv, self.rx_er = Signal(8), Signal(), Signal()
        self.txd, self.tx_en = Signal(8), Signal()

    def elaborate(self, platform):
        m = Module()
        pads = platform.request(self.resource, 0, dir={"rx_clk": "-"})
        m.submodules.rx_clk = pad = io.Buffer("i", pads.rx_clk)
        clock = Signal(name="clk_eth")
        m.d.comb += [clock.eq(pad.i), ClockSignal("eth").eq(clock)]
        # of the port: nets have other names behind synthesis, and nextpnr passes over a constraint of a net that there is not
        platform.add_clock_constraint(pads.rx_clk.io, _HZ)
        m.d.comb += [pads.rst.o.eq(ResetSignal("sync")), pads.mdc.o.eq(0), pads.mdio.oe.eq(0)]
        low, high = Signal(5), Signal(5)
        for k, pin in enumerate([*pads.rx_data.i, pads.rx_ctrl.i]):
            late = Signal(name=f"late{k}")
            m.submodules += Instance(
                "DELAYG",
                p_DEL_MODE="USER_DEFINED",
                p_DEL_VALUE=self.delay,
                i_A=pin,
                o_Z=late,
            )
            m.submodules += Instance(
                "IDDRX1F", i_D=late, i_SCLK=clock, i_RST=Const(0), o_Q0=low[k], o_Q1=high[k]
            )
        m.d.eth += [
            self.rxd.eq(Cat(low[:4], high[:4])),
            self.rx_dv.eq(low[4]),
            self.rx_er.eq(low[4] ^ high[4]),
        ]
        first, second = Cat(self.txd[:4], self.tx_en, 1), Cat(self.txd[4:], self.tx_en, 0)
        for k, pin in enumerate([*pads.tx_data.o, pads.tx_ctrl.o, pads.tx_clk.o]):
            m.submodules += Instance(
                "ODDRX1F", i_D0=first[k], i_D1=second[k], i_SCLK=clock, i_RST=Const(0), o_Q=pin
            )
        return m
