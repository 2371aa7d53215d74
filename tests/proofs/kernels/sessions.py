import penstock as ps

sessions = ps.ObliviousMap(key=ps.u64, value=ps.bytes(8), capacity=64)
