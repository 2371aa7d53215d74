"""Decide the proofs of a part: python tests/proofs/try.py PART [WORD …] [--defects]"""
import importlib
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from harness import decide, planted
from harness.trace import replay

words=[w for w in sys.argv[2:] if not w.startswith("-")]
mod=importlib.import_module(f"parts.{sys.argv[1]}")
for p in mod.PROOFS:
    if not all(w in p.name for w in words): continue
    if "--no" not in sys.argv:
        t=time.time(); b=p.bench(); v=decide(b,method=p.method,depth=p.depth,covers=p.covers,seconds=int(([a[2:] for a in sys.argv if a.startswith("-T")] or [p.seconds])[0]))
        print(f"{p.name}: holds={v.holds} depth={v.depth} {v.seconds}s total {time.time()-t:.1f}s missing covers: {[c for c in b.covers if c not in v.reached]} {v.reached if '-v' in sys.argv else ''} {v.detail[-300:] if v.holds is None else ''}", flush=True)
        if v.holds is False:
            f,t=replay(p.bench(),v.trace,pathlib.Path("/tmp/pf/x.vcd")); print(f); print(t)
    if "--defects" in sys.argv:
        for d in p.defects:
            with planted(d):
                b=p.bench(); v=decide(b,method=p.method,depth=p.depth,seconds=p.seconds)
                print("   defect", d, "->", v.holds, v.depth, v.seconds, v.detail[-200:] if v.holds is None else "", flush=True)
                if v.holds is False:
                    f,t=replay(p.bench(),v.trace,pathlib.Path("/tmp/pf/x.vcd")); print("      ", f)
                    if "-t" in sys.argv: print(t)
