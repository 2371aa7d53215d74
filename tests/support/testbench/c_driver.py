"""A program in C++ that carries out an export's recorded run through its C driver, on the Verilated core."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .recorded import CHECK, COMPARE, PUT, SET, WAIT, Recorded, Step

__all__ = ["program"]

_PROGRAM = r"""
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>
#include "V@IP.h"
#include "@IP.h"

static V@IP *top;
static std::vector<uint8_t> memories[@SPACES];

/* Memory behind one port: bursts of whole words, one after the other. */
struct Reading { uint64_t at = 0; unsigned left = 0; };
struct Writing { uint64_t at = 0; unsigned left = 0; bool answer = false; };
@STATES

static void place(uint8_t space, uint64_t end)
{
    if (memories[space].size() < end) memories[space].resize(end + 4096);
}

/* One clock cycle: the memories see what stands at the pins before its edge. */
static void tick()
{
    top->aclk = 0;
    top->eval();
@BEFORE
    top->aclk = 1;
    top->eval();
@AFTER
    top->eval();
}

static uint32_t read32(void *, uint32_t offset)
{
    top->s_axil_araddr = offset;
    top->s_axil_arvalid = top->s_axil_rready = 1;
    for (bool taken = false; !taken;) { top->aclk = 0; top->eval(); taken = top->s_axil_arready; tick(); }
    top->s_axil_arvalid = 0;
    for (;;) {
        top->aclk = 0;
        top->eval();
        uint32_t value = top->s_axil_rdata;
        bool valid = top->s_axil_rvalid;
        tick();
        if (valid) return value;
    }
}

static void write32(void *, uint32_t offset, uint32_t value)
{
    top->s_axil_awaddr = offset;
    top->s_axil_wdata = value;
    top->s_axil_wstrb = 15;
    top->s_axil_awvalid = top->s_axil_wvalid = top->s_axil_bready = 1;
    for (bool answered = false; !answered;) {
        top->aclk = 0;
        top->eval();
        bool address = top->s_axil_awready, data = top->s_axil_wready;
        answered = top->s_axil_bvalid;
        tick();
        if (address) top->s_axil_awvalid = 0;
        if (data) top->s_axil_wvalid = 0;
    }
}

static int load(void *, unsigned memory, uint64_t address, const void *data, size_t size)
{
    place(memory, address + size);
    std::memcpy(&memories[memory][address], data, size);
    return 0;
}

static int store(void *, unsigned memory, uint64_t address, void *data, size_t size)
{
    place(memory, address + size);
    std::memcpy(data, &memories[memory][address], size);
    return 0;
}

static const struct @IP_io io = {nullptr, read32, write32, load, store};
@RUNS

int main()
{
    const std::unique_ptr<V@IP> owner{top = new V@IP};
    top->aresetn = 0;
    for (int k = 0; k < 4; ++k) tick();
    top->aresetn = 1;
    tick();
@CALLS
    std::puts("PASS @IP: through its driver");
    return 0;
}
"""

_READ_BEFORE = """
    if (@P_axi_arvalid && @P_axi_arready) { @P_r.at = @P_axi_araddr; @P_r.left = @P_axi_arlen + 1u; }
    else if (@P_axi_rvalid && @P_axi_rready) { @P_r.at += @W; --@P_r.left; }"""
_READ_AFTER = """
    @P_axi_arready = !@P_r.left;
    @P_axi_rvalid = @P_r.left > 0;
    @P_axi_rlast = @P_r.left == 1;
    if (@P_r.left) { place(@S, @P_r.at + @W); std::memcpy(&@P_axi_rdata, &memories[@S][@P_r.at], @W); }"""
_WRITE_BEFORE = """
    if (@P_axi_bvalid && @P_axi_bready) @P_w.answer = false;
    if (@P_axi_wvalid && @P_axi_wready) {
        place(@S, @P_w.at + @W);
        for (unsigned k = 0; k < @W; ++k)
            if (reinterpret_cast<const uint8_t *>(&@P_axi_wstrb)[k / 8] >> k % 8 & 1)
                memories[@S][@P_w.at + k] = reinterpret_cast<const uint8_t *>(&@P_axi_wdata)[k];
        @P_w.at += @W;
        if (!--@P_w.left) @P_w.answer = true;
    }
    if (@P_axi_awvalid && @P_axi_awready) { @P_w.at = @P_axi_awaddr; @P_w.left = @P_axi_awlen + 1u; }"""
_WRITE_AFTER = """
    @P_axi_awready = !@P_w.left && !@P_w.answer;
    @P_axi_wready = @P_w.left > 0;
    @P_axi_bvalid = @P_w.answer;"""


def _bytes(name: str, data: bytes) -> str:
    return f"static const uint8_t {name}[] = {{{', '.join(map(str, data or b'0'))}}};\n"


def _runs(steps: Iterator[Step]) -> Iterator[tuple[list[Step], list[Step]]]:
    """Yield what comes before each wait, and what comes behind it until the next start is prepared."""
    before: list[Step] = []
    after: list[Step] = []
    ended = False
    for step in steps:
        if ended and (step.kind == PUT or (step.kind == CHECK and step.at == 0)):
            yield before, after
            before, after, ended = [], [], False
        ended = ended or step.kind == WAIT
        (after if ended else before).append(step)
    yield before, after


def _run(ip: str, number: int, core: Recorded, before: list[Step], after: list[Step]) -> str:
    """Return a function that carries out one start."""
    engine = {register["name"]: register for register in core.manifest["register_map"]["registers"]}
    loads = [step for step in before if step.kind == PUT]
    outputs = [step for step in after if step.kind == COMPARE]
    code = next(
        step.value
        for step in after
        if step.at == core.registers["error_code"] and step.kind == CHECK
    )
    header = (core.folder / f"sw/{ip}.h").read_text()
    members = re.findall(
        r"uint\d+_t (\w+);", header[header.index(f"struct {ip}_registers") :].partition("};")[0]
    )
    values = {step.at: step.value for step in before if step.kind == SET}
    lines = [
        f"static int run{number}()\n{{\n    struct {ip}_run run = {{}};\n    struct {ip}_ended ended;\n"
    ]
    texts = ""
    for kind, found in (("input", loads), ("output", outputs)):
        rows = []
        for k, step in enumerate(found):
            texts += _bytes(f"{kind}{number}_{k}", step.data)
            place = f"{kind}{number}_{k}"
            if kind == "output":
                lines.append(f"    static uint8_t found{k}[{max(1, len(step.data))}];\n")
                place = f"found{k}"
            rows.append(f"{{{step.space}, {step.at}u, {place}, {len(step.data)}}}")
        if rows:
            lines.append(f"    const struct {ip}_{kind} {kind}s[] = {{{', '.join(rows)}}};\n")
            lines.append(f"    run.{kind}s = {kind}s;\n    run.{kind}_count = {len(rows)};\n")
    for member in members:
        if member in engine:
            at = core.registers[member]
            value = values.get(at, 0) | values.get(at + 4, 0) << 32 * (engine[member]["bits"] > 32)
            lines.append(f"    run.registers.{member} = {value}u;\n")
    lines.append(
        f"    run.watchdog = {values[core.registers['watchdog']]};\n    run.patience = 10000000;\n"
    )
    lines.append(f"    int code = {ip}_run(&io, &run, &ended);\n")
    lines.append(
        f'    if (code != {code}) return std::printf("FAIL {ip}: %d, %s\\n", code, {ip}_error_text(code));\n'
    )
    for k, step in enumerate(outputs):
        lines.append(
            f"    if (std::memcmp(found{k}, output{number}_{k}, {len(step.data)})) "
            f'return std::printf("FAIL {ip}: bytes at {step.at:#x}\\n");\n'
        )
    return f"{texts}\n{''.join(lines)}    return 0;\n}}\n"


def program(folder: Path, ip: str) -> str:
    """Return the program's text."""
    core = Recorded(folder)
    before, after, states = "", "", ""
    for port in core.ports:
        pieces = [(port["read"], "r", "Reading", _READ_BEFORE, _READ_AFTER)]
        pieces += [(port["write"], "w", "Writing", _WRITE_BEFORE, _WRITE_AFTER)]
        for there, letter, kind, first, then in pieces:
            if there:
                states += f"static {kind} {port['name']}_{letter};\n"
                for text, is_first in ((first, True), (then, False)):
                    text = text.replace("@P_axi", f"top->{port['name']}_axi")
                    text = text.replace("@P", port["name"]).replace("@W", str(port["bytes"]))
                    text = text.replace("@S", str(port["space"]))
                    before, after = (before + text, after) if is_first else (before, after + text)
    runs = [_run(ip, k, core, *run) for k, run in enumerate(_runs(core.steps))]
    spaces = 1 + max(port["space"] for port in core.ports)
    text = _PROGRAM.replace("@IP", ip).replace("@SPACES", str(spaces)).replace("@STATES", states)
    text = (
        text.replace("@BEFORE", before).replace("@AFTER", after).replace("@RUNS", "\n".join(runs))
    )
    return text.replace(
        "@CALLS", "".join(f"    if (run{k}()) return 1;\n" for k in range(len(runs)))
    )
