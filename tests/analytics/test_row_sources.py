"""What indices read of tables: integers, categories, arrays of several lengths; and what is wrong with them, by its row, column and value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.utils import murmurhash3_32

import penstock as ps
from penstock.dsl.core.diagnostics import KernelError
from penstock.host.sources import SourceError
from penstock.scores.scoring import score_table
from testbench.command_line import told


@ps.kernel
def seen(c: ps.Index["n"], x: ps.Input, many: ps.Model["n"], total: ps.Model["n"]):
    ps.score(total[c])
    return many.at[c].add(1), total.at[c].add(x)


@ps.kernel
def single(c: ps.Index["n"], many: ps.Model["n"]):
    return many.at[c].add(1)


@ps.kernel
def bag(c: ps.Index["n", 4], many: ps.Model["n"]):
    return many.at[c].add(1)


@ps.kernel
def bag_of_2(c: ps.Index["n", 2], many: ps.Model["n"]):
    return many.at[c].add(1)


def counted(kernel: Any, table: Any, **options: Any) -> tuple[Any, Any]:
    design = ps.compile(kernel, "small", table, **options)
    return design, design.run(table)


def labels(design: Any) -> Any:
    return design.plan.schema.columns[0].labels


@pytest.mark.parametrize(
    "values, many",
    [
        (np.array([3, 0, 3], np.int16), [1, 0, 0, 2]),
        (np.array([3, 0, 3], np.int64), [1, 0, 0, 2]),
        (np.array([True, False, True]), [1, 2]),
        (np.array(["2000-01-02", "2000-01-03", "2000-01-02"], "M8[D]"), [0, 2, 1]),
        (np.array(["b", "a", "b"]), [1, 2]),
        (np.array(["a\0b", "a", "a\0b"]), [1, 2]),
        (["a\0", "a", "a\0"], [1, 2]),
        (np.array([b"a\0b", b"a", b"a\0b"]), [1, 2]),
        (pd.Categorical(["u", "w", "u"], categories=["w", "v", "u"]), [1, 0, 2]),
        (pa.array(["q", "p", "q"]).dictionary_encode(), [2, 1]),
    ],
)
def test_columns(values: Any, many: list[int]) -> None:
    if isinstance(values, pd.Categorical):
        values = pd.Series(values)
    table = {"c": values, "x": np.arange(3.0)}
    _, run = counted(seen, table)
    assert run.result["many"].tolist() == many
    assert run.rows_used == 3


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_moments_that_are_dates(unit: str) -> None:
    """A frame has no type for dates. Moments within a day are no index, nor are floats, as which it has whole numbers with NULL; the hint says what is."""
    days = pd.Series(["2000-01-02", None, "2000-01-04", "2000-01-02"]).astype(f"M8[{unit}]")
    frame = pd.DataFrame({"c": days, "x": [1.0, 2.0, 4.0, 8.0]})
    design, run = counted(seen, frame, on_null="skip")
    assert run.result["total"].tolist() == [0, 9, 0, 4]
    dates = {"c": days.to_numpy().astype("M8[D]"), "x": frame.x}
    assert design.run(dates).result["total"].tolist() == [0, 9, 0, 4]
    assert design.run(pa.Table.from_pandas(frame)).result["total"].tolist() == [0, 9, 0, 4]
    frame["c"] += pd.Timedelta("1h")
    with pytest.raises(KernelError, match=r"(?s)E613.*float8 is no integer.*dt.normalize\(\)"):
        ps.compile(seen, "small", frame)
    frame["c"] = [1, None, 3, 1]
    with pytest.raises(KernelError, match=r"(?s)E613.*float8 is no integer.*astype\('Int64'\)"):
        ps.compile(seen, "small", frame)
    frame["c"] = frame["c"].astype("Int64")
    assert counted(seen, frame, on_null="skip")[1].result["total"].tolist() == [0, 9, 0, 4]


def test_periods_are_categories_in_the_order_of_time(tmp_path: Path) -> None:
    """Though they are stored as numbers that count from 1970."""
    months = ["2020-02", "2019-12", None, "2020-02", "2020-10"]
    for freq, named in (
        ("M", ("2019-12", "2020-02", "2020-10")),
        ("Q", ("2019Q4", "2020Q1", "2020Q4")),
    ):
        frame = pd.DataFrame({"c": pd.PeriodIndex(months, freq="M").asfreq(freq)})
        file = tmp_path / f"{freq}.parquet"
        frame.to_parquet(file)
        for table in (frame, {"c": frame["c"]}, str(file)):
            design = ps.compile(single, "small", table, on_null="skip")
            assert labels(design) == named
            run = design.run(table)
            assert run.result["many"].tolist() == [1, 2, 1] and run.rows_skipped == 1
        later = pd.DataFrame({"c": pd.PeriodIndex(["2021-01"], freq="M").asfreq(freq)})
        with pytest.raises(SourceError, match=f"category '{later['c'][0]}' is not"):
            design.run(later)


def test_frames_keep_their_categories() -> None:
    frame = pd.DataFrame({"c": pd.Categorical(["u", "v"], ["w", "v", "u"]), "x": [1.0, 2.0]})
    design, run = counted(seen, frame)
    assert labels(design) == ("w", "v", "u") and run.result["total"].tolist() == [0, 2, 1]
    # a run on another table, and scores, have the design's numbers
    other = pd.DataFrame({"c": ["v", "v", "w"], "x": [1.0, 1.0, 5.0]})
    assert design.run(other).result["total"].tolist() == [5, 2, 0]
    assert run.predict({"c": ["u", "w"], "x": [0, 0]}).values.tolist() == [1, 0]


def test_sparse_integers_are_categories_where_that_is_said() -> None:
    table = {"c": np.array([10**9, -5, 10**9, 7]), "x": np.ones(4)}
    design, run = counted(seen, table, categories=("c",))
    assert labels(design) == ("-5", "7", "1000000000") and run.result["many"].tolist() == [1, 1, 2]
    assert design.run({"c": [7, 7], "x": [1.0, 1.0]}).result["many"].tolist() == [0, 2, 0]


@pytest.mark.parametrize(
    "rows",
    [
        [[1, 2], [3], [], [0, 0, 0]],
        pa.array([[1, 2], [3], [], [0, 0, 0]]),
        pd.Series([[1, 2], [3], [], [0, 0, 0]]),
        np.ma.array(
            [[1, 2, 9], [3, 9, 9], [9, 9, 9], [0, 0, 0]],
            mask=np.array([[0, 0, 1], [0, 1, 1], [1, 1, 1], [0, 0, 0]]),
        ),
    ],
)
def test_arrays_of_several_lengths(rows: Any) -> None:
    _, run = counted(bag, {"c": rows})
    assert run.result["many"].tolist() == [3, 1, 1, 1]


@pytest.mark.parametrize(
    "rows, size",
    [
        (pa.array([[1], [3, 1]], pa.list_(pa.int16())), 4),
        (pa.array([[1], [3, 1]], pa.list_(pa.int32())), 4),
        (pa.array([[1], [3, 1]], pa.large_list(pa.int64())), 8),
        (pd.Series([np.array([1], np.int32), np.array([3, 1], np.int32)]), 4),
        (np.array([[60000, 1], [3, 1]], np.uint16), 4),
        (np.array([[1, 3], [3, 1]], np.uint32), 8),
        ([[1], [3, 1]], 8),
    ],
)
def test_hashes_of_arrays_are_of_their_own_type(rows: Any, size: int) -> None:
    """As for single indices: unsigned numbers are of the next wider type."""

    @ps.kernel
    def spread(c: ps.Index[70_000, 2], a: ps.Model[64]):
        return a.at[ps.hash(c, 5) % len(a)].add(1)

    cells = [int(c) for row in rows for c in (row.as_py() if isinstance(row, pa.Scalar) else row)]
    found = counted(spread, {"c": rows})[1].result["a"]
    chosen = [murmurhash3_32(c.to_bytes(size, "little"), 5) % 64 for c in cells]
    assert found.tolist() == np.bincount(chosen, minlength=64).tolist()


@pytest.mark.parametrize("backend", ["golden", "pysim"])
@pytest.mark.parametrize("number", [-(2**63), -(2**63) + 1, -(2**63) + 2, 2**63 - 1])
def test_integers_at_the_end_of_64_bits(number: int, backend: str) -> None:
    """In arrays, too, none of them is a place that is left out."""
    for values in (np.array([0, number]), np.array([[0, 2], [number, 2]])):
        table = {"c": values, "x": np.ones(2)}
        kernel = seen if values.ndim == 1 else bag_of_2
        run = ps.compile(kernel, "small", table, dims={"n": 3}).run(table, backend)
        [error] = run.errors
        told = f"-{2**63 - 2} or less" if number < 0 else str(number)
        assert error.code.name == "VALUE_INDEX" and error.column == "c" * (backend == "golden")
        assert f"{told} is not one of 0 to 2" in run.workload.failure(error).text
        run = ps.compile(kernel, "small", table, dims={"n": 3}, on_index="skip").run(table, backend)
        assert run.rows_skipped == 1 and run.result["many"].sum() == values[0].size


@ps.kernel
def two(c: ps.Index["n"], d: ps.Index["m"], x: ps.Input, many: ps.Model["n"], most: ps.Model["m"]):
    return many.at[c].add(x), most.at[d].max(x)


@pytest.mark.parametrize("backend", ["golden", "pysim"])
@pytest.mark.parametrize("order", ["cdx", "dxc", "xdc"])
def test_the_first_column_that_is_wrong_is_the_error_of_a_row(order: str, backend: str) -> None:
    """Values and indices alike; the message tells what that column holds, whatever else is wrong."""
    columns = {"c": np.arange(250) % 3, "d": np.arange(250) % 4, "x": np.ones(250)}
    columns["c"][200], columns["d"][200], columns["x"][200] = 7, -1, np.nan
    table, dims = {name: columns[name] for name in order}, {"n": 3, "m": 4}
    run = ps.compile(two, "small", table, dims=dims).run(table, backend)
    code, told = {
        "c": ("VALUE_INDEX", "7 is not one of 0 to 2"),
        "d": ("VALUE_INDEX", "-1 is not one of 0 to 3"),
        "x": ("VALUE_NAN", ""),
    }[order[0]]
    said = run.workload.failure(run.errors[0]).text
    assert run.errors[0].code.name == code and told in said
    assert f"row 201, column {order[0]}" in " ".join(said.split())
    columns["x"][5] = np.nan  # left out, so that seen rows and delivered ones are no longer as many
    columns["x"][200] = 1
    run = ps.compile(two, "small", table, dims=dims, on_nan="skip").run(table, backend)
    first = min("cd", key=order.index)
    assert f"{columns[first][200]} is not" in run.workload.failure(run.errors[0]).text


def test_a_size_that_is_not_in_the_way_is_not_told() -> None:
    table = {"c": [[1, 2], [3]]}
    for dims in ({"n": 5}, {}):  # or the table says it
        design = ps.compile(bag, "small", table, dims=dims)
        with pytest.raises(KernelError, match=r"(?s)E496.*arrays that have all places") as caught:
            design.run(table, "pysim")
        assert "the largest n" not in str(caught.value)


def test_integers_beyond_64_bits() -> None:
    for values in (np.array([2**63], np.uint64), np.array([[1, 2**63]], np.uint64)):
        kernel = seen if np.ndim(values) == 1 else bag
        with pytest.raises(SourceError, match=r"2\*\*63 and more"):
            ps.compile(kernel, "small", {"c": values, "x": np.ones(1)}, dims={"n": 3})


def test_columns_of_a_bag_count_one_after_the_other() -> None:
    table = {"a": np.array([1, 0, 2]), "b": np.array([0, 1, 1])}
    design, run = counted(bag, table, bind={"c": ["a", "b"]})
    assert run.result["many"].tolist() == [1, 1, 1, 1, 2]
    texts = {"a": np.array(["x", "y", "x"]), "b": np.array(["p", "x", "x"])}
    assert counted(bag, texts, bind={"c": ["a", "b"]})[1].result["many"].tolist() == [2, 1, 1, 2]
    # a shorter table does not change what comes before
    assert design.run({"a": [0], "b": [1]}).result["many"].tolist() == [1, 0, 0, 0, 1]


def test_unseen_categories() -> None:
    table, new = (
        {"c": np.array(["b", "a"]), "x": np.ones(2)},
        {"c": ["a", "zz", "b"], "x": [1.0, 2.0, 3.0]},
    )
    design = ps.compile(seen, "small", table)
    with pytest.raises(
        SourceError, match="row 2, column 'c': the category 'zz' is not among the 2"
    ) as caught:
        design.run(new)
    assert caught.value.code == "E849"
    design = ps.compile(seen, "small", table, on_unseen="skip")
    run = design.run(new)
    assert run.result["total"].tolist() == [1, 3] and run.counters["unseen_rows"] == 1
    assert run.rows_skipped == 1
    design = ps.compile(seen, "small", table, on_unseen="last", dims={"n": 3})
    run = design.run(new)
    assert run.result["total"].tolist() == [1, 3, 2] and run.counters["unseen_last"] == 1
    assert run.predict({"c": ["a", "new"], "x": [0, 0]}).values.tolist() == [1, 2]
    with pytest.raises(
        KernelError, match="on_unseen: the last of the 2 rows of c is a category's own"
    ):
        ps.compile(seen, "small", table, on_unseen="last")


def test_scores_of_unseen_categories(tmp_path: Path) -> None:
    """What scoring says goes before what the training said."""
    table = {"c": np.array(["b", "a"]), "x": np.ones(2)}
    new = {"c": ["a", "zz", "b"], "x": [0.0, 0.0, 0.0]}
    run = ps.compile(seen, "small", table, dims={"n": 3}).run(table)
    with pytest.raises(SourceError, match="row 2, column 'c': the category 'zz'"):
        run.predict(new)
    assert run.predict(new, on_unseen="skip").values.tolist() == [1, None, 1]
    assert run.predict(new, on_unseen="last").values.tolist() == [1, 0, 1]
    with pytest.raises(ps.Error, match="on_unseen must be one of error, skip, last, not 'first'"):
        run.predict(new, on_unseen="first")
    run.save(tmp_path / "run")
    np.savez(tmp_path / "new.npz", **new)
    out = tmp_path / "scores.csv"
    told(f"score {tmp_path}/run --data {tmp_path}/new.npz --on-unseen skip --out {out}")
    assert [line.rpartition(",")[2] for line in out.read_text().split()[1:]] == ["1.0", "", "1.0"]


def test_scores_of_rows_that_there_are_not() -> None:
    table = {"c": np.array([0, 1, 2]), "x": np.ones(3)}
    run = ps.compile(seen, "small", table).run(table)
    new = {"c": [0, 5], "x": [0.0, 0.0]}
    with pytest.raises(ps.Error, match="5 is not one of 0 to 2"):
        run.predict(new)
    assert run.predict(new, on_index="skip").values.tolist() == [1, None]


@ps.kernel(batch=2)
def shifted(c: ps.Index["n", 3], i: ps.Index["m"], x: ps.Input, E: ps.Model["n"], b: ps.Model[5]):
    return E.at[c].add(x), b.at[i - 2].add(ps.sum(E[c]))


def drawn(seed: int) -> tuple[dict[str, Any], list[tuple[str, str, Any] | None]]:
    """A table and what is wrong with each of its rows: the code, the column, the value; the first that counts."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 30))
    c = [rng.integers(0, 6, rng.integers(0, 4)).tolist() for _ in range(rows)]
    i = np.ma.array(rng.integers(2, 7, rows), mask=False)
    wrong: list[Any] = [None] * rows
    for row in rng.permutation(rows)[: rng.integers(0, 4)].tolist():
        kind = rng.integers(0, 5)
        if kind == 0:
            value = int(rng.choice([-1, 6, 2**40, -(2**40)]))
            c[row] = [0, value]
            wrong[row] = ("VALUE_INDEX", "c", value)
        elif kind == 1:
            c[row] = None
            wrong[row] = ("TUPLE_NULL", "c", None)
        elif kind == 2:
            i[row] = np.ma.masked
            wrong[row] = ("TUPLE_NULL", "i", None)
        elif kind == 3:
            i[row] = int(rng.choice([-3, 8, 10**6]))
            wrong[row] = ("VALUE_INDEX", "i", int(i.data[row]))
        else:
            i[row] = int(rng.choice([0, 1, 7]))  # there, but i - 2 is no row of b
            wrong[row] = ("VALUE_INDEX", "", int(i.data[row]) - 2)
    if all(bag is None for bag in c):  # a column of nothing has no type
        c[0], wrong[0] = [], None
    return {"c": c, "i": i, "x": rng.integers(-4, 5, rows) / 4}, wrong


def compare(seed: int) -> None:
    table, wrong = drawn(seed)
    rng = np.random.default_rng(seed + 10**6)
    policies = {
        "on_null": str(rng.choice(["error", "skip"])),
        "on_index": str(rng.choice(["error", "skip"])),
    }
    skipped = {
        "TUPLE_NULL": policies["on_null"] == "skip",
        "VALUE_INDEX": policies["on_index"] == "skip",
    }
    text = {"n": 6, "m": 8}
    design = ps.compile(shifted, "small", table, "fixed:16,8", dims=text, **policies)
    run = design.run(table)
    first = next((k for k, w in enumerate(wrong) if w is not None and not skipped[w[0]]), None)
    if first is not None:
        code, column, value = wrong[first]
        [error] = run.errors
        assert (error.code.name, error.column, run.result if run.ok else None) == (
            code,
            column,
            None,
        ), seed
        failure = run.workload.failure(error)
        assert f"row {first + 1}" in failure.text and (
            value is None or f" {value} " in f" {error.detail} ".replace(",", " ")
        ), seed
        return
    kept = [k for k, w in enumerate(wrong) if w is None]
    E, b = np.zeros(6), np.zeros(5)
    for at in range(0, len(kept), 2):
        pair = kept[at : at + 2]
        sums = [E[table["c"][k]].sum() for k in pair]
        for k, total in zip(pair, sums, strict=True):
            np.add.at(E, np.array(table["c"][k], int), table["x"][k])
            b[table["i"].data[k] - 2] += total
    assert np.array_equal(run.result["E"], E) and np.array_equal(run.result["b"], b), seed
    assert run.counters["rows_skipped"] == len(wrong) - len(kept)
    assert run.counters["index_rows"] == sum(w is not None and w[0] == "VALUE_INDEX" for w in wrong)
    assert design.order(table).tolist() == kept


def test_a_row_that_values_name_is_not_left_out() -> None:
    """The hint does not name an option that has no effect there."""

    @ps.kernel
    def chosen(u: ps.Index["m"], x: ps.Input[3], P: ps.Model["m"]):
        return P.at[u].add(1).at[ps.argmax(x)].add(1)

    table = {"u": [0, 1], "x": np.array([[3.0, 2, 1], [1, 2, 3]])}
    for policy in ("error", "skip"):
        run = ps.compile(chosen, "small", table, dims={"m": 2}, on_index=policy).run(table)
        said = " ".join(run.workload.failure(run.errors[0]).text.split())
        assert "rows 0 to 1, not 2" in said and "row 2" in said
        assert "hint: values name this row, whatever --on-index says" in said
        assert "skip leaves such rows out" not in said
    run = ps.compile(chosen, "small", table, dims={"m": 3}).run(table)
    assert run.result["P"].tolist() == [2, 1, 1]


def test_bad_input() -> None:
    for seed in range(40):
        compare(seed)


@pytest.mark.long
def test_bad_input_many() -> None:
    for seed in range(1000, 3000):
        compare(seed)


def test_a_row_that_values_choose() -> None:
    @ps.kernel
    def chosen(x: ps.Input["d"], i: ps.Index[9], E: ps.Model["d"]):
        return E.at[ps.argmax(x) + i].add(1)

    table = {"x": np.eye(3), "i": [0, 0, 4]}
    run = ps.compile(chosen, "small", table).run(table)
    [error] = run.errors
    assert error.code.name == "VALUE_INDEX" and "rows 0 to 2, not 6" in str(
        run.workload.failure(error).text
    )
    assert "row 3" in run.workload.failure(error).text


@pytest.mark.parametrize(
    "columns, code, said",
    [
        ({"c": np.ones(2), "x": np.ones(2)}, "E613", "its type float8 is no integer"),
        ({"d": np.arange(2), "x": np.ones(2)}, "E617", "the index c has no column"),
        ({"c": [[1, 2], [3, 4]], "x": np.ones(2)}, "E614", "is one number, and its columns have 2"),
    ],
)
def test_columns_that_are_no_index(columns: Any, code: str, said: str) -> None:
    with pytest.raises(KernelError, match=said) as caught:
        ps.compile(seen, "small", columns)
    assert caught.value.diagnostic.code == code


def test_opened_tables_have_arrays_of_whole_numbers_where_that_is_said() -> None:
    """A table that is opened before any kernel is known has floats of them; the hint says how it keeps them."""
    table = {"c": np.array([[1, 2], [3, 1]])}
    with pytest.raises(
        KernelError, match=r"(?s)float4\[\] is no integer.*open_table\(…, indices="
    ) as caught:
        ps.compile(bag_of_2, "small", ps.open_table(table))
    assert "['c']" in (caught.value.diagnostic.hint or "")
    opened = ps.open_table(table, indices=["c"])
    assert ps.open_table(table, indices="c").digest == opened.digest
    design, run = counted(bag_of_2, opened)
    assert run.result["many"].tolist() == [0, 2, 1, 1]
    assert design.run(table).result["many"].tolist() == [0, 2, 1, 1]


def test_whole_numbers_are_exact_in_every_format() -> None:
    @ps.kernel
    def spread(i: ps.Index["n"], E: ps.Model[1000]):
        return E.at[(i * 7919 + 400) % 1000].add(1)

    table = {"i": np.arange(50)}
    run = ps.compile(spread, "small", table, "fixed:4,4").run(table)
    found = np.bincount((np.arange(50) * 7919 + 400) % 1000, minlength=1000)
    assert np.array_equal(run.result["E"], found)


def test_random_rows_have_indices() -> None:
    design = ps.compile(seen, "small", dims={"n": 5})
    run = design.run("random:rows=200,seed=2")
    assert run.result["many"].sum() == 200 and (run.result["many"] > 0).all()


def test_a_servers_table(postgres: str) -> None:
    """Whole numbers and arrays are read as they are stored, dates too; texts and enums are categories where the source names them."""
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS indexed; DROP TYPE IF EXISTS size")
        connection.execute("CREATE TYPE size AS ENUM ('small', 'large')")
        connection.execute(
            "CREATE TABLE indexed (i int8, c int4[], d date, t text, e size, x float4)"
        )
        for row in (
            "3, '{1,2}', '2000-01-03', 'b', 'large', 1",
            "0, '{}', '2000-01-01', 'a', 'small', 2",
            "3, '{2}', '2000-01-03', 'b', 'large', 4",
        ):
            connection.execute(f"INSERT INTO indexed VALUES ({row})")
        connection.execute("VACUUM (FREEZE) indexed")
        connection.execute("CHECKPOINT")
    source = f"{postgres}{'&' if '?' in postgres else '?'}table=indexed"
    opened = ps.open_table(source, indices=["c"])
    assert counted(bag, opened, bind={"c": "c"})[1].result["many"].tolist() == [0, 1, 2]
    for column, many in (("i", [1, 0, 0, 2]), ("d", [1, 0, 2]), ("t", [1, 2]), ("e", [1, 2])):
        asked = f"{source}&features={column}" if column in "te" else source
        design, run = counted(seen, asked, bind={"c": column})
        assert run.result["many"].tolist() == many, column
        packed = {"i": np.array([1, 0]), "d": np.array(["2000-01-02", "2000-01-01"], "M8[D]")}
        if column in packed:  # the column is of one type, whichever the source
            here = ps.compile(
                seen, "small", {"c": packed[column], "x": np.ones(2, "f4")}, dims={"n": 4}
            )
            query = f"{postgres}{'&' if '?' in postgres else '?'}query=SELECT {column} AS c, x FROM indexed"
            assert here.run(query).result["many"].tolist() == [*many, 0][:4]
            assert here.plan.schema.columns[0].type == design.plan.schema.column(column).type
    assert counted(bag, source, bind={"c": "c"})[1].result["many"].tolist() == [0, 1, 2]


def test_dates_of_a_server(postgres: str) -> None:
    """Of rows older than the column its default; infinite ones are no rows; NULL is NULL."""
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS days; CREATE TABLE days (x float4)")
        connection.execute("INSERT INTO days VALUES (1), (2)")
        connection.execute(
            "ALTER TABLE days ADD d date DEFAULT '2000-01-03', ADD e date DEFAULT '2000-01-02'"
        )
        connection.execute(
            "INSERT INTO days VALUES (4, '2000-01-01'), (8, NULL), (16, 'infinity'), (32, '-infinity'), (64, '1999-12-31')"
        )
    source = f"{postgres}{'&' if '?' in postgres else '?'}table=days"
    design = ps.compile(
        seen, "small", source, bind={"c": "d"}, dims={"n": 3}, on_null="skip", on_index="skip"
    )
    for asked in (source, source.replace("table=days", "query=SELECT x, d, e FROM days")):
        run = design.run(asked)
        assert (run.workload.provenance.way == "rows") == ("query" in asked)
        assert run.result["total"].tolist() == [4, 0, 3]
        assert (run.counters["rows_skipped"], run.counters["index_rows"]) == (4, 3)
    [error] = (
        run := ps.compile(
            seen, "small", source, bind={"c": "d"}, dims={"n": 3}, on_null="skip"
        ).run(source)
    ).errors
    assert "2147483647 is not one of 0 to 2" in run.workload.failure(error).text
    assert counted(seen, source, bind={"c": "e"})[1].result["total"].tolist() == [0, 127]


def test_the_row_of_an_error(postgres: str) -> None:
    """Of the server's own pages it is named as SQL names it; rows that were fetched have no such name."""
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS named; CREATE TABLE named (c int4, x float4)")
        connection.execute(
            "INSERT INTO named SELECT k, 0 FROM generate_series(1, 9) AS k; DELETE FROM named WHERE c < 4"
        )
        source = f"{postgres}{'&' if '?' in postgres else '?'}table=named"
        queried = source.replace("table=named", "query=SELECT c, x FROM named")
        design = ps.compile(seen, "small", source, dims={"n": 7})
        for asked, place, hint in (
            (
                source,
                "named, block 0, line pointer 7, column c",
                "SELECT * FROM named WHERE ctid = '(0,7)'",
            ),
            (queried, "query, row 4 as the server sent it, column c", "gives the model more rows"),
        ):
            run = design.run(asked)
            text = run.workload.failure(run.errors[0]).text
            assert f" --> {place}\n" in text and text.rstrip().endswith(hint)
        connection.execute("ALTER TABLE named ALTER x TYPE numeric")
        run = ps.compile(seen, "small", source, bind={"x": "x"}, dims={"n": 7}).run(source)
        assert (
            "--> named, row 4 as the server sent it, column c\n"
            in run.workload.failure(run.errors[0]).text
        )


def test_arrays_that_are_older_rows_default(postgres: str) -> None:
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS bags; CREATE TABLE bags (x float4)")
        connection.execute("INSERT INTO bags SELECT 1 FROM generate_series(1, 3)")
        connection.execute("ALTER TABLE bags ADD c int8[] DEFAULT '{1,2,2}'")
        connection.execute("INSERT INTO bags VALUES (1, '{0}')")
    source = f"{postgres}{'&' if '?' in postgres else '?'}table=bags"
    _, run = counted(bag, source)
    assert run.workload.provenance.way != "rows" and run.result["many"].tolist() == [1, 3, 6]
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(
            "UPDATE bags SET c = '{2,0,0}' WHERE cardinality(c) = 1; ALTER TABLE bags ADD y float8[] DEFAULT '{1,2}'"
        )

    @ps.kernel
    def full(c: ps.Index["n", 3], E: ps.Model["n"]):
        return E.at[c].add(1)

    design = ps.compile(full, "small", source, "fixed:16,8")
    golden, run = (design.run(source, name) for name in ("golden", "pysim"))
    for one in (golden, run):
        assert one.result["E"].tolist() == [2, 3, 7]
    assert run.cycles == design.run(source, "model").cycles
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(
            "ALTER TABLE bags DROP c, ADD c int4[] DEFAULT '{1,1}'; UPDATE bags SET c = '{2,0,1}'"
        )
    design = ps.compile(full, "small", source, "fixed:16,8")
    for name in ("golden", "pysim"):  # no row is older than the column
        assert design.run(source, name).result["E"].tolist() == [4, 4, 4]
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE bags; CREATE TABLE bags (x float4)")
        connection.execute(
            "INSERT INTO bags VALUES (1); ALTER TABLE bags ADD c int8[] DEFAULT '{0}'"
        )
    other = ps.compile(bag, "small", {"x": np.ones(1, "f4"), "c": [[1]]}, dims={"n": 3})
    assert other.run(source).result["many"].tolist() == [1, 0, 0]


def test_whole_numbers_of_a_server_are_categories(postgres: str) -> None:
    """Where that is said, in their order, and with a design's numbers; a column that holds none is an error."""
    import psycopg

    source = f"{postgres}{'&' if '?' in postgres else '?'}table=sparse"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS sparse")
        connection.execute("CREATE TABLE sparse (c int8, d date, x float4)")
        connection.execute(
            "INSERT INTO sparse VALUES (5000000000, '1990-01-01', 1), (-3, '2020-01-01', 2), (NULL, '1990-01-01', 8), (5000000000, NULL, 4), (20, NULL, 0)"
        )
    said: dict[str, Any] = {"on_null": "skip", "categories": ("c",)}
    for asked in (source, source.replace("table=sparse", "query=SELECT * FROM sparse")):
        design, run = counted(seen, asked, **said)
        assert design.compiled.plan.schema.column("c").labels == ("-3", "20", "5000000000")
        assert run.result["total"].tolist() == [2, 0, 5] and run.rows_used == 4
    other = ps.compile(
        seen, "small", {"c": [20, -3, 5000000000], "x": np.ones(3, np.float32)}, **said
    )
    assert other.run(source).result["total"].tolist() == [2, 0, 5]
    said["categories"] = ("d",)
    with pytest.raises(KernelError, match="categories: the column d holds none: it is"):
        counted(seen, source, bind={"c": ["d"]}, **said)


def test_columns_that_are_stepped_over(postgres: str) -> None:
    """A plan is measured on rows as the table has them, whatever types are among them."""
    import psycopg

    values = {
        "date": "'1990-01-01'",
        "uuid": "gen_random_uuid()",
        "timestamptz": "now()",
        "jsonb": "'{}'",
        "json": "'{}'",
        "varchar(9)": "'abc'",
        "char(3)": "'abc'",
        "text[]": "'{a,b}'",
        "bytea": "'abc'",
        "name": "'abc'",
        "interval": "'1 day'",
        "money": "3",
        "point": "'(1,2)'",
    }
    source = f"{postgres}{'&' if '?' in postgres else '?'}table=many_types"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS many_types")
        names = ", ".join(f"k{k} {kind}" for k, kind in enumerate(values))
        connection.execute(f"CREATE TABLE many_types ({names}, c int4, x float4)")
        connection.execute(f"INSERT INTO many_types VALUES ({', '.join(values.values())}, 1, 2)")

    @ps.kernel
    def read(c: ps.Index["n"], x: ps.Input, E: ps.Model["n"]):
        return E.at[c].add(x - E[c])

    _, run = counted(read, source)
    assert run.result["E"].tolist() == [0, 2] and run.workload.provenance.way != "rows"


@ps.kernel
def lone(c: ps.Index["n"], x: ps.Input["d"], E: ps.Model["n"]):
    return E.at[c].add(ps.sum(x))


@ps.kernel
def pair(c: ps.Index["n"], x: ps.Input, y: ps.Input, E: ps.Model["n"]):
    ps.score(E[c] + y)
    return E.at[c].add(x + y)


@pytest.mark.parametrize(
    ("kernel", "bind", "pages", "taken"),
    [
        (pair, {"x": ["a"], "y": ["b"]}, True, [0, 3]),
        (pair, {"x": ["a"], "y": ["price"]}, False, [0, 4.5]),
        (lone, {"x": ["a", "b"]}, True, [0, 3]),
        (lone, {"x": ["v"]}, True, [0, 9]),
        (lone, {"x": ["list"]}, False, [0, 15]),
        (lone, {}, False, [0, 30.5]),
    ],
)
def test_columns_that_no_kernel_takes_are_not_cast(
    kernel: Any, bind: Any, pages: bool, taken: list[float], postgres: str
) -> None:
    """Where what a kernel takes is known before the table is read, no other column decides how it is read."""
    import psycopg

    source = f"{postgres}{'&' if '?' in postgres else '?'}table=unused_types"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS unused_types")
        columns = "a float4, b float8, price numeric, v float4[], list int4[], c int4"
        connection.execute(f"CREATE TABLE unused_types ({columns})")
        connection.execute(
            "INSERT INTO unused_types VALUES (1, 2, 3.5, '{4,5}', '{7,8}', 1), (0, 0, 0, '{0,0}', '{0,0}', 0)"
        )
    design, run = counted(kernel, source, bind=bind, dims={"n": 2})
    assert run.result["E"].tolist() == taken
    assert (run.workload.provenance.way != "rows") == pages
    again = design.run(source)
    assert again.result["E"].tolist() == taken
    assert (again.workload.provenance.way != "rows") == pages
    if kernel is pair:  # its scores take another column than the index
        scored = score_table(run.scoring, source).provenance
        assert scored is not None and (scored.way != "rows") == pages


def test_an_array_that_an_input_takes_by_its_name(postgres: str) -> None:
    """It is taken alone, and no other column is cast; a number of that name is one of all that the input takes."""
    import psycopg

    source = f"{postgres}{'&' if '?' in postgres else '?'}table=named_types"
    with psycopg.connect(postgres, autocommit=True) as connection:
        for kind, value, pages, sum_ in (
            ("float4[]", "'{4,5}'", True, 9),
            ("float4", "4", False, 7.5),
        ):
            connection.execute("DROP TABLE IF EXISTS named_types")
            connection.execute(f"CREATE TABLE named_types (x {kind}, price numeric, c int4)")
            connection.execute(f"INSERT INTO named_types VALUES ({value}, 3.5, 1)")
            _, run = counted(lone, source)
            assert run.result["E"].tolist() == [0, sum_]
            assert (run.workload.provenance.way != "rows") == pages


@pytest.mark.parametrize(
    ("table", "what"),
    [
        (
            {"c": np.array([1], np.int32), "x": [1.0]},
            "its column 'c' is int4, the design's is int8",
        ),
        ({"c": [1]}, "it has no column 'x'"),
        ({"c": [1], "x": [1.0], "y": [2]}, "it has one column more, 'y'"),
        ({"x": [1.0], "c": [1]}, r"the column 'x' \(float8\), the design has 'c' \(int8\)"),
    ],
)
def test_a_table_of_another_kind(table: Any, what: str) -> None:
    design = ps.compile(seen, "small", {"c": [0, 1], "x": [1.0, 2.0]})
    with pytest.raises(SourceError, match=f"not of the kind the design was compiled for: .*{what}"):
        design.run(table)


def test_dictionaries_of_several_files(tmp_path: Path) -> None:
    """Without an order of their own, categories come in the order of the files; with one, files must not contradict each other."""
    import pyarrow.parquet as pq

    for name, texts in (("a", ["y", "x", "y"]), ("b", ["z", "x", "y"])):
        column = pa.array(texts).dictionary_encode()
        pq.write_table(pa.table({"c": column, "x": [1.0, 2.0, 4.0]}), tmp_path / f"{name}.parquet")
    design, run = counted(seen, str(tmp_path / "*.parquet"))
    assert labels(design) == ("y", "x", "z") and run.result["total"].tolist() == [9, 4, 1]
    kind = pa.dictionary(pa.int8(), pa.string(), ordered=True)
    chunks = [pa.array(["y", "x"]), pa.array(["x", "y"])]
    column = pa.chunked_array([chunk.dictionary_encode().cast(kind) for chunk in chunks])
    with pytest.raises(SourceError, match="do not tell one order"):
        counted(seen, {"c": column, "x": np.ones(4)})


def test_arrays_that_are_compressed(postgres: str) -> None:
    """Such rows are fetched and packed anew, with their indices, whichever column it is."""
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS wide")
        connection.execute("CREATE TABLE wide (c int4[], x float8[], t text)")
        connection.execute("ALTER TABLE wide ALTER t SET STORAGE PLAIN")
        connection.execute(  # of every seventh row x is compressed, of every ninth c
            "INSERT INTO wide SELECT array_fill((k % 5)::int4, ARRAY[CASE k % 9 WHEN 0 THEN 4000 ELSE 4 END]), "
            "array_fill(k::float8, ARRAY[CASE k % 7 WHEN 0 THEN 900 ELSE 1 END]), '' FROM generate_series(1, 300) AS k"
        )
        connection.execute(
            "UPDATE wide SET c = array_fill(c[1], ARRAY[60]), t = repeat('xyz', 900) WHERE cardinality(c) = 4000"
        )
        asked = "SELECT count(*) FROM wide WHERE pg_column_compression({}) IS NOT NULL"
        packed = [connection.execute(asked.format(n)).fetchone()[0] for n in "cx"]
        every = connection.execute("SELECT c FROM wide").fetchall()
    assert packed[0] and packed[1]

    @ps.kernel
    def places(c: ps.Index[5, 60], many: ps.Model[5]):
        return many.at[c].add(1)

    source = f"{postgres}{'&' if '?' in postgres else '?'}table=wide"
    _, run = counted(places, source)
    found = run.workload.provenance
    assert found.way != "rows" and found.rebuilt >= max(packed) and run.rows_used == 300
    expected = np.bincount([place for (row,) in every for place in row], minlength=5)
    assert run.result["many"].tolist() == expected.tolist()


def test_sparse_numbers_that_are_no_categories() -> None:
    table = {"c": [1_000_000_007, -4], "x": [1.0, 2.0]}
    with pytest.raises(
        KernelError, match=r"(?s)E307.*many has 1,000,000,008 numbers.*--categories"
    ):
        ps.compile(seen, "small", table, on_index="skip")
    said = r"(?s)E307.*the index c counts 1,099,511,627,777 rows.*--categories c.*--dim n=SIZE"
    with pytest.raises(KernelError, match=said):
        ps.compile(seen, "small", {"c": [2**40, -4], "x": [1.0, 2.0]})
    with pytest.raises(KernelError, match="categories: no index takes a column x"):
        ps.compile(seen, "small", table, categories=("x",))
    design = ps.compile(seen, "small", table, categories=("c",))
    assert design.run(table).result["many"].tolist() == [1, 1]


def test_categories_beyond_a_model() -> None:
    table = {"c": ["ann", "bob"], "x": [1.0, 2.0]}
    run = ps.compile(seen, "small", table, dims={"n": 1}).run(table)
    said = run.workload.failure(run.errors[0]).text
    assert "the category 'bob' has the number 1, which is not one of 0 to 0" in said


@pytest.mark.parametrize("learned", [np.int32, np.int64])
def test_scores_hash_what_was_learned(learned: type, tmp_path: Path) -> None:
    """Bytes of the training's column, whatever integers are scored, also of a saved run."""
    row = "a[hash(i, 3) % len(a)]"
    text = f"kernel k(i: index[n], x: input, a: model[4])\n  score s = {row}\n  {row} += x\n"
    (tmp_path / "k.psk").write_text(text)
    table = {"i": np.arange(9).astype(learned), "x": np.arange(9.0)}
    run = ps.compile(tmp_path / "k.psk", "small", table).run(table)
    rows = [murmurhash3_32(learned(i).tobytes(), 3) % 4 for i in range(9)]
    expected = np.bincount(rows, np.arange(9.0), 4)[rows]
    run.save(tmp_path / "run")
    for made in (run, ps.Run.load(tmp_path / "run")):
        for given in (np.int16, np.int32, np.int64):
            new = {"i": np.arange(9).astype(given)}
            assert made.predict(new).values.tolist() == expected.tolist()
