"""What is put on a board: the SoC, its clock and its pins."""

from amaranth.build import Attrs, Pins, Resource
from amaranth.hdl import (
    ClockDomain,
    ClockSignal,
    Const,
    Elaboratable,
    Instance,
    Module,
    ResetSignal,
    Signal,
)
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import connect

from ..hdl.memory.sdram import SdramController
from ..models.target import Target
from .clocks import SDRAM_MHZ
from .pll import Setting, Unreachable, solve
from .rgmii import Rgmii

#: bits of the iCE40's PLL parameters
_ICE40_BITS = {"DIVR": 4, "DIVF": 7, "DIVQ": 3, "FILTER_RANGE": 3}


def clock_setting(board: Target, clock_mhz: float) -> Setting | None:
    """Return how the board's PLL makes `clock_mhz`, or None where the oscillator has that frequency already and no second phase is needed.

    Raises pll.Unreachable; so too for clocks that SDRAM cannot have (`BoardTop`).
    """
    if board.memory.kind == "SDRAM" and not SDRAM_MHZ[0] <= clock_mhz <= SDRAM_MHZ[1]:
        raise Unreachable(
            f"{board.name}'s SDRAM runs at {SDRAM_MHZ[0]:g} to {SDRAM_MHZ[1]:g} MHz, not {clock_mhz:g}"
        )
    return (
        None
        if abs(board.pins.oscillator_mhz - clock_mhz) < 1e-6 and board.memory.kind != "SDRAM"
        else solve(board.family, board.pins.oscillator_mhz, clock_mhz)
    )


class BoardTop(Elaboratable):
    """`soc` on `board`: domain `sync` from the oscillator (through the PLL as `setting` says), pins of the link, a reset after configuration.

    The reset lasts until the PLL has locked, and 15 cycles more: block RAMs of the iCE40 are not ready before.

    Where the memory is SDRAM, the chip's clock leads the domain's by a quarter of a cycle: commands are stable three quarters before it, and what the
    chip gives (6 ns after its edge, up to 2.7 ns after the next) is met by the domain's edge at any clock of the PLL from 40 MHz to 100 MHz.
    """

    def __init__(self, board: Target, soc, setting: Setting | None):
        self.board, self.soc, self.setting = board, soc, setting
        self.chip_clock = Signal()  # of an SDRAM

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain("sync")
        locked = Signal()
        if self.setting is None:
            m.d.comb += [
                ClockSignal("sync").eq(platform.request(self.board.pins.clock, dir="i").i),
                locked.eq(1),
            ]
        else:
            self._pll(m, platform, self.setting, locked)
        # counts cycles after the lock; configuration sets it to 0
        m.domains.boot = ClockDomain("boot", reset_less=True, local=True)
        m.d.comb += ClockSignal("boot").eq(ClockSignal("sync"))
        steady, count = Signal(), Signal(4)
        m.submodules.steady = FFSynchronizer(locked, steady, o_domain="boot", reset_less=True)
        with m.If(~steady):
            m.d.boot += count.eq(0)
        with m.Elif(~count.all()):
            m.d.boot += count.eq(count + 1)
        rest = Signal(init=1)
        m.d.boot += rest.eq(~count.all())
        m.d.comb += ResetSignal("sync").eq(rest)

        m.submodules.soc = self.soc
        if self.board.memory.kind == "SDRAM":
            self._sdram(m, platform)
        if self.board.link.kind == "udp":
            self._ethernet(m)
            return m
        if self.board.pins.uart_pins is None:
            uart = platform.request(self.board.pins.uart, 0)
            rx, tx = uart.rx.i, uart.tx.o
        else:
            rx, tx = self._serial(platform)
        m.submodules.rx = FFSynchronizer(rx, self.soc.rx, init=1)
        m.d.comb += tx.eq(self.soc.tx)
        return m

    def _sdram(self, m, platform):
        """The controller on the board's chip."""
        assert self.setting is not None
        m.submodules.sdram = sdram = SdramController(
            self.soc.port,
            clock_hz=round(self.setting.output_mhz * 1e6),
            chip=self.board.sdram,
        )
        connect(m, self.soc.memory, sdram.bus)
        pins, pads = sdram.pins, platform.request("sdram", 0)
        m.d.comb += [
            pads.clk.o.eq(self.chip_clock),
            pads.ras.o.eq(~pins.ras_n),
            pads.cas.o.eq(~pins.cas_n),
            pads.we.o.eq(~pins.we_n),
            pads.ba.o.eq(pins.ba),
            pads.a.o.eq(pins.a),
            pads.dq.o.eq(pins.dq_o),
            pads.dq.oe.eq(pins.dq_oe),
            pins.dq_i.eq(pads.dq.i),
        ]
        # what a board may tie
        tied = {"clk_en": pins.cke, "cs": ~pins.cs_n, "dqm": pins.dqm}
        m.d.comb += [
            getattr(pads, name).o.eq(value) for name, value in tied.items() if hasattr(pads, name)
        ]

    def _ethernet(self, m):
        pins = self.board.pins
        m.domains.eth = ClockDomain("eth", reset_less=True)
        m.submodules.rgmii = rgmii = Rgmii(pins.rgmii, pins.rgmii_delay_ps)
        m.d.comb += [
            getattr(self.soc, pin).eq(getattr(rgmii, pin)) for pin in ("rxd", "rx_dv", "rx_er")
        ]
        m.d.comb += [rgmii.txd.eq(self.soc.txd), rgmii.tx_en.eq(self.soc.tx_en)]

    def _serial(self, platform):
        """A UART on header pins."""
        assert self.board.pins.uart_pins is not None
        rx, tx = self.board.pins.uart_pins
        platform.add_resources(
            [
                Resource(
                    "serial_rx", 0, Pins(rx, dir="i"), Attrs(IO_TYPE="LVCMOS33", PULLMODE="UP")
                ),
                Resource("serial_tx", 0, Pins(tx, dir="o"), Attrs(IO_TYPE="LVCMOS33")),
            ]
        )
        return platform.request("serial_rx").i, platform.request("serial_tx").o

    def _pll(self, m, platform, setting: Setting, locked):
        kinds = {"ice40": self._sb_pll40, "ecp5": self._ehxplll, "gowin": self._rpll}
        if self.board.family not in kinds:
            raise ValueError(f"no PLL of a {self.board.family} device is known")
        clock = Signal(name="clk_sync")
        m.submodules.pll = kinds[self.board.family](platform, setting, clock, locked)
        platform.add_clock_constraint(clock, setting.output_mhz * 1e6)
        m.d.comb += ClockSignal("sync").eq(clock)

    def _sb_pll40(self, platform, setting, clock, locked):
        """The PLL of an iCE40."""
        values = dict(setting.parameters)
        # the UP5K's only PLL lies at the clock's pin, whose input nothing else can then use
        if self.board.device.tool == "--up5k":
            kind = "SB_PLL40_PAD"
            source = {"io_PACKAGEPIN": platform.request(self.board.pins.clock, dir="-").io}
        else:
            kind = "SB_PLL40_CORE"
            source = {"i_REFERENCECLK": platform.request(self.board.pins.clock, dir="i").i}
        return Instance(
            kind,
            **source,
            p_FEEDBACK_PATH="SIMPLE",
            p_PLLOUT_SELECT="GENCLK",
            **{f"p_{name}": Const(values[name], bits) for name, bits in _ICE40_BITS.items()},
            i_RESETB=Const(1),
            i_BYPASS=Const(0),
            o_PLLOUTGLOBAL=clock,
            o_LOCK=locked,
        )

    def _ehxplll(self, platform, setting, clock, locked):
        """The PLL of an ECP5."""
        values = dict(setting.parameters)
        source = platform.request(self.board.pins.clock, dir="i").i
        divide, second = values["CLKOP_DIV"], {}
        # later by three quarters of a cycle, which is a quarter before the next one
        if self.board.memory.kind == "SDRAM":
            second = {
                "p_CLKOS_ENABLE": "ENABLED",
                "p_OUTDIVIDER_MUXB": "DIVB",
                "p_CLKOS_DIV": divide,
                "p_CLKOS_CPHASE": divide // 2 + 3 * divide // 4,
                "p_CLKOS_FPHASE": 0,
                "o_CLKOS": self.chip_clock,
            }
        return Instance(
            "EHXPLLL",
            **second,
            **_each("p", "DISABLED", "PLLRST_ENA INTFB_WAKE STDBY_ENABLE DPHASE_SOURCE"),
            p_OUTDIVIDER_MUXA="DIVA",
            p_CLKOP_ENABLE="ENABLED",
            p_CLKOP_DIV=values["CLKOP_DIV"],
            p_CLKOP_CPHASE=values["CLKOP_DIV"] // 2,
            p_CLKOP_FPHASE=0,
            p_FEEDBK_PATH="CLKOP",
            p_CLKI_DIV=values["CLKI_DIV"],
            p_CLKFB_DIV=values["CLKFB_DIV"],
            a_FREQUENCY_PIN_CLKI=f"{setting.input_mhz:g}",
            a_FREQUENCY_PIN_CLKOP=f"{setting.output_mhz:g}",
            a_ICP_CURRENT="12",
            a_LPF_RESISTOR="8",
            i_CLKI=source,
            i_CLKFB=clock,
            **_each("i", Const(0), "RST STDBY PHASESEL0 PHASESEL1"),
            **_each("i", Const(1), "PHASEDIR PHASESTEP PHASELOADREG"),
            **_each("i", Const(0), "PLLWAKESYNC ENCLKOP"),
            o_CLKOP=clock,
            o_LOCK=locked,
        )

    def _rpll(self, platform, setting, clock, locked):
        """The PLL of a Gowin GW1NR."""
        values = dict(setting.parameters)
        source = platform.request(self.board.pins.clock, dir="i").i
        return Instance(
            "rPLL",
            p_FCLKIN=f"{setting.input_mhz:g}",
            p_DEVICE="GW1NR-9C",
            **{f"p_{name}": values[name] for name in ("IDIV_SEL", "FBDIV_SEL", "ODIV_SEL")},
            **_each("p", "false", "DYN_IDIV_SEL DYN_FBDIV_SEL DYN_ODIV_SEL"),
            p_PSDA_SEL="0000",
            p_DYN_DA_EN="false",
            p_DUTYDA_SEL="1000",
            **_each("p", Const(1), "CLKOUT_FT_DIR CLKOUTP_FT_DIR"),
            **_each("p", 0, "CLKOUT_DLY_STEP CLKOUTP_DLY_STEP"),
            p_CLKFB_SEL="internal",
            **_each("p", "false", "CLKOUT_BYPASS CLKOUTP_BYPASS CLKOUTD_BYPASS"),
            p_DYN_SDIV_SEL=2,
            **_each("p", "CLKOUT", "CLKOUTD_SRC CLKOUTD3_SRC"),
            i_CLKIN=source,
            **_each("i", Const(0), "CLKFB RESET RESET_P"),
            **_each("i", Const(0, 6), "FBDSEL IDSEL ODSEL"),
            **_each("i", Const(0, 4), "PSDA DUTYDA FDLY"),
            o_CLKOUT=clock,
            o_LOCK=locked,
        )


def _each(kind, value, names):
    """Return parameters ("p") or inputs ("i") of an `Instance` that all have one value."""
    return {f"{kind}_{name}": value for name in names.split()}
