"""The part of a training that runs inside a server, as text in the body of a function, `train_rows`: the server's own Python has nothing of Penstock.

It reads the rows through the caller's own transaction, hands them to a worker, the interpreter that ran `penstock sql install`, and writes the out
tables with what the worker answers: one transaction, under the caller's rights. The worker gets no connection.

Between the two: lines of JSON, behind some of them bytes as `array_send` makes them (PostgreSQL: `array_send` in arrayfuncs.c).
"""

import json
import os
import re
import select
import subprocess
from typing import Any, NamedTuple

#: columns of the out table by method, behind those that rows are grouped by; names and types are MADlib's
RESULTS = {
    "linregr": "coef float8[], r2 float8, std_err float8[], t_stats float8[], p_values float8[], condition_no float8, "
    "num_rows_processed bigint, num_missing_rows_skipped bigint, variance_covariance float8[]",
    "logregr": "coef float8[], log_likelihood float8, std_err float8[], z_stats float8[], p_values float8[], odds_ratios float8[], "
    "condition_no float8, num_rows_processed bigint, num_missing_rows_skipped bigint, num_iterations integer, variance_covariance float8[]",
    "svm": "coef float8[], grouping_key text, num_rows_processed bigint, num_rows_skipped bigint, num_iterations integer, loss float8, "
    "norm_of_gradient float8, __dep_var_mapping text[]",
    "train": "model text, place integer[], name text, value float8",
}
#: columns of the summary beside the names of tables and variables
TOTALS = {
    "linregr": "num_rows_processed bigint, num_missing_rows_skipped bigint, grouping_cols text",
    "logregr": "optimizer_params text, num_all_groups integer, num_failed_groups integer, num_rows_processed bigint, "
    "num_missing_rows_skipped bigint, grouping_cols text",
    "svm": "kernel_func text, kernel_parameters text, grouping_col text, optim_params text, reg_params text, num_all_groups integer, "
    "num_failed_groups integer, total_rows_processed bigint, total_rows_skipped bigint, dependent_vartype text",
    "train": "kernel text, options jsonb, num_rows_processed bigint, num_missing_rows_skipped bigint, num_iterations integer, converged boolean",
}
#: numbers that are sent as they are, arrays of them by the element's type
NUMBERS = {21: "int2", 23: "int4", 20: "int8", 700: "float4", 701: "float8"}
ARRAYS = {1005: 21, 1007: 23, 1016: 20, 1021: 700, 1022: 701}
TEXT, FIRST_OWN = 25, 16384  #: the catalog's own types have smaller OIDs
#: rows of a message, and the longest time without a look at whether the statement is cancelled
ROWS, SECONDS = 5000, 0.2
#: classes of SQLSTATE of what is wrong with an expression, or with a row's value
MISTAKES = ("0A", "21", "22", "23", "42", "P0")


class Request(NamedTuple):
    """What the function `train_rows` takes, in its order; `options`: JSON. Method "version": what a worker says of itself."""

    method: str
    source: Any
    out: Any
    dependent: Any
    independent: Any
    grouping: Any
    options: Any


class Refused(Exception):
    """What is raised as an error of PostgreSQL's, outside of Python: message, detail, hint, the SQLSTATE that is not an invalid parameter's."""

    def __init__(self, message, detail=None, hint=None, state=None):
        super().__init__(message)
        self.said = {"message": message, "detail": detail, "hint": hint, "state": state}


def state_of(problem):
    """Return the SQLSTATE of an error of the server's, which packs it in six bits a character."""
    code = problem.spidata[0]
    return "".join(chr((code >> 6 * place & 63) + ord("0")) for place in range(5))


def refusal(problem, what=None, hint=None):
    """Return an error of the server's as one that is raised outside of Python; `what`: the argument that it is of."""
    _, detail, its_hint = problem.spidata[:3]
    about = "; ".join(part for part in (what, detail) if part)
    return Refused(str(problem), about or None, its_hint or hint, state_of(problem))


class Worker:
    """A process that ends with the function, and by itself where its standard input ends."""

    def __init__(self, plpy, command):
        self.plpy, self.held = plpy, b""
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                cwd="/", env={"PATH": os.defpath, "LANG": "C.UTF-8"}, start_new_session=True,
            )  # fmt: skip
        except OSError as problem:
            hint = "penstock sql upgrade, run by a Python with penstock that the server's user can execute"
            what = f"{command[0]}: {problem.strerror}"
            raise Refused("the worker cannot be started", what, hint) from problem
        assert process.stdin and process.stdout
        self.process: Any = process
        for pipe in (process.stdin, process.stdout):
            os.set_blocking(pipe.fileno(), False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def send(self, header, *parts):
        data = memoryview(b"".join((json.dumps(header).encode(), b"\n", *parts)))
        while data:
            self.plpy.execute("SELECT pg_catalog.pg_sleep(0)")  # sees to a cancel
            if select.select([], [self.process.stdin], [], SECONDS)[1]:
                try:
                    data = data[os.write(self.process.stdin.fileno(), data) :]
                except BrokenPipeError:
                    return  # `answer` says why

    def answer(self):
        while not self.held.endswith(b"\n"):
            self.plpy.execute("SELECT pg_catalog.pg_sleep(0)")
            if select.select([self.process.stdout], [], [], SECONDS)[0]:
                part = os.read(self.process.stdout.fileno(), 1 << 20)
                if not part:
                    status = self.process.wait()
                    how = f"signal {-status}" if status < 0 else f"exit code {status}"
                    raise Refused(
                        "the worker ended before its answer",
                        how,
                        "nothing was written; is there enough memory?",
                    )
                self.held += part
        answer = json.loads(self.held)
        if "error" in answer:
            raise Refused(**answer["error"])
        return answer


def _asked(plpy, expression, *values):
    """Return the value of an expression in SQL; `values`: its parameters, texts."""
    plan = plpy.prepare(f"SELECT {expression} AS it", ["text"] * len(values))
    return plpy.execute(plan, list(values))[0]["it"]


def names_of(plpy, source, out):
    """Return the names of the table that is read, of the out table and of its summary, quoted as in SQL. Raises Refused where the first is missing,
    or one of the others is there."""
    hint = "give the name of a table or a view, quoted as in SQL: a query becomes one by CREATE TEMPORARY VIEW"
    try:
        full_name = _asked(plpy, "pg_catalog.to_regclass($1)::text", source)
    except plpy.SPIError as problem:
        raise refusal(problem, f"the source: {source}", hint) from None
    if full_name is None:
        hint = "qualify it with its schema, and quote it as in SQL"
        raise Refused(f"there is no table {source}", None, hint)
    hint = 'give a name, quoted as in SQL: "a name", schema.name'
    try:
        parts = _asked(plpy, "pg_catalog.parse_ident($1)", out)
        names = [
            ".".join(map(plpy.quote_ident, [*parts[:-1], parts[-1] + end]))
            for end in ("", "_summary")
        ]
        flags = [_asked(plpy, "pg_catalog.to_regclass($1) IS NOT NULL", name) for name in names]
    except plpy.SPIError as problem:
        raise refusal(problem, f"the out table: {out}", hint) from None
    for table in (name for name, is_there in zip(names, flags, strict=True) if is_there):
        hint = f"DROP TABLE {table}, or give another name"
        raise Refused(f"there is a table {table} already", None, hint)
    most = int(_asked(plpy, "pg_catalog.current_setting('max_identifier_length')")) - len(
        "_summary"
    )
    if len(parts[-1].encode()) > most:
        raise Refused(
            "the name of the out table is too long",
            out,
            f"it has at most {most} bytes: its summary's is longer",
        )
    return full_name, *names


def _written(name, kind):
    """Return a value as the catalog's own types have it. Casts of other types may be functions of whoever made them, and run with the caller's rights."""
    if kind < FIRST_OWN:
        return name
    return f"CASE WHEN {name} IS NOT NULL THEN pg_catalog.format('%s', {name}) END"


def _check_groups(plpy, kinds):
    """Refuse types that are made of other types: checks of somebody's read their texts."""
    asked = "SELECT pg_catalog.format_type(oid, NULL) AS name FROM pg_catalog.pg_type WHERE oid = ANY ($1) AND (typtype NOT IN ('b', 'e') OR typcategory = 'A')"
    custom_kinds = [kind for kind in kinds if kind >= FIRST_OWN]
    for row in plpy.execute(plpy.prepare(asked, ["oid[]"]), [custom_kinds]):
        hint = "group by a column of another type"
        raise Refused(f"rows cannot be grouped by {row['name']}", None, hint)


def rows_query(plpy, source, dependent, independent, groups, text):
    """Return `query`, the SELECT of features, label and groups; the types of the elements and of the label, and the name of that as
    `vartype`. `text`: the label is one of classes."""
    # coalesce takes domains off
    values = [("(" + independent + "\n)", "x"), ("(" + (dependent or "0::float8") + "\n)", "y")]
    values += zip(groups, groups, strict=True)
    listed = ", ".join(f"coalesce({value}, NULL) AS {name}" for value, name in values)
    types = plpy.execute(f"SELECT {listed} FROM {source} LIMIT 0").coltypes()
    x, y = types[:2]
    _check_groups(plpy, types[2:])
    element = ARRAYS.get(x, x if x in NUMBERS else 701)
    array = plpy.execute(
        f"SELECT typcategory = 'A' AS it FROM pg_catalog.pg_type WHERE oid = {x}::pg_catalog.oid"
    )[0]["it"]
    cast = _written("x", x)
    features = (
        (f"{cast}::{NUMBERS[element]}[]" if array else f"ARRAY[{cast}::{NUMBERS[element]}]")
        if x != 16
        else "ARRAY[x::int::float8]"
    )
    if x == 1000:  # boolean[]
        features = "x::int[]::float8[]"
    kind = y if y in NUMBERS else 701
    label = (
        "y::text"
        if text
        else f"pg_catalog.array_send(ARRAY[y{'::int' if y == 16 else ''}::{NUMBERS[kind]}])"
    )
    written = (f"({_written(g, t)})::text" for g, t in zip(groups, types[2:], strict=True))
    keys = f"ARRAY[{', '.join(written)}]::text[]"
    null = "x IS NULL OR pg_catalog.array_position(x, NULL) IS NOT NULL" + " OR y IS NULL"
    inner = f"SELECT {features} AS x, {_written('y', y)} AS y, {keys} AS g FROM (SELECT {listed} FROM {source}) q"
    query = (
        f"SELECT {null} AS skipped, pg_catalog.array_send(x) AS x, {label} AS y, g FROM ({inner}) r"
    )
    named = y if y < FIRST_OWN else TEXT
    name = plpy.execute(f"SELECT pg_catalog.format_type({named}, NULL) AS name")[0]["name"]
    return {"query": query, "element": element, "kind": kind, "vartype": name}


def blamed(plpy, problem, parts):
    """Return an error of the server's in what reads the rows, with the argument that it is of: the first that fails alone; `parts`: of `rows_query`."""
    source, dependent, independent = parts[:3]
    groups, text = parts[3:]
    if state_of(problem)[:2] not in MISTAKES:
        return refusal(problem)
    alone = {
        f"the independent variable: {independent}": (None, independent, []),
        f"the dependent variable: {dependent}": (dependent, "1", []),
        f"grouping_cols: {', '.join(groups)}": (None, "1", groups),
    }
    hint = f"write SQL expressions over the columns of {source}: an array of numbers, such as ARRAY[1, age], and a {'class' if text else 'number'}"
    try:
        plpy.execute(f"SELECT FROM {source} LIMIT 0")
    except plpy.SPIError as cause:
        return refusal(cause, f"the source: {source}", "name a table or a view that you may read")
    for what, part in alone.items():
        try:
            query = rows_query(plpy, source, *part, text)["query"]
            plpy.execute(f"SELECT pg_catalog.count(q) FROM ({query}) q")
        except plpy.SPIError as cause:
            wanted = f"group by columns of {source}" if part[2] else hint
            return refusal(cause, what, wanted)
    return refusal(problem, "; ".join(list(alone)[: 2 if not groups else 3]), hint)


def send_rows(plpy, worker, query, text):
    """Hand all rows without a NULL to the worker."""
    size, cursor = None, plpy.cursor(query)
    while rows := cursor.fetch(ROWS):
        skipped = [r["g"] for r in rows if r["skipped"]]
        rows = [r for r in rows if not r["skipped"]]
        sizes = {len(r["x"]) for r in rows} | ({size} if size else set())
        if len(sizes) > 1:
            raise Refused(
                "the arrays of features have different lengths",
                None,
                "every row needs as many features",
            )
        size = next(iter(sizes), None)
        label = [r["y"] for r in rows] if text else None
        header = {
            "rows": len(rows),
            "size": size,
            "skipped": skipped,
            "groups": [r["g"] for r in rows],
            "labels": label,
        }
        worker.send(header, *(r["x"] for r in rows), *(() if text else (r["y"] for r in rows)))
    worker.send({"rows": None})


def make_tables(plpy, method, source, table, summary, groups):
    """Make both out tables, without rows."""
    listed = "".join(f"coalesce({g}, NULL) AS {g}, " for g in groups)
    columns = (c.strip().rsplit(" ", 1) for c in RESULTS[method].split(","))
    nulls = ", ".join(f"NULL::{t} AS {n}" for n, t in columns)
    names = "method text, source_table text, out_table text, dependent_varname text, independent_varname text, "
    try:
        plpy.execute(f"CREATE TABLE {table} AS SELECT {listed}{nulls} FROM {source} WITH NO DATA")
        plpy.execute(f"CREATE TABLE {summary} ({names}{TOTALS[method]})")
    except plpy.SPIError as problem:
        if state_of(problem) == "42701":
            hint = (
                f"group by columns with other names, each once: the out table has {RESULTS[method]}"
            )
            raise refusal(problem, f"grouping_cols: {', '.join(groups)}", hint) from None
        hint = "give another name, in a schema where you may create tables"
        raise refusal(problem, f"the out table: {table}", hint) from None


def train(plpy, command, request):
    """Train, and write both out tables."""
    method = request.method
    if method == "version":
        with Worker(plpy, command) as worker:
            worker.send({"method": "version"})
            return json.dumps(worker.answer())
    for name, value in (
        ("source", request.source),
        ("out table", request.out),
        ("independent variable", request.independent),
    ):
        if not value:
            raise Refused(
                f"the {name} is NULL or empty", None, "it is a name or an expression, as text"
            )
    if not request.dependent and method != "train":
        raise Refused(
            "the dependent variable is NULL or empty", None, "it is an expression, as text"
        )
    source, table, summary = names_of(plpy, request.source, request.out)
    groups = [g.strip() for g in (request.grouping or "").split(",") if g.strip()]
    if wrong := next((g for g in groups if not re.fullmatch(r'[A-Za-z_][\w$]*|"[^"]+"', g)), None):
        raise Refused(
            f"{wrong} is no column's name",
            None,
            "rows are grouped by columns, with commas between them",
        )
    text = method in ("logregr", "svm")
    parts = (source, request.dependent, request.independent, groups, text)
    try:
        asked = rows_query(plpy, *parts)
    except plpy.SPIError as problem:
        raise blamed(plpy, problem, parts) from None
    vartype = asked["vartype"]
    if method == "logregr" and vartype != "boolean":
        raise Refused(
            f"the dependent variable is {vartype}, not boolean",
            None,
            "write a condition, such as y = 1",
        )
    make_tables(plpy, method, source, table, summary, groups)
    with Worker(plpy, command) as worker:
        kinds = {"element": asked["element"], "kind": asked["kind"]}
        worker.send({"method": method, **kinds, "options": json.loads(request.options)})
        try:
            send_rows(plpy, worker, asked["query"], text)
        except plpy.SPIError as problem:
            raise blamed(plpy, problem, parts) from None
        answer = worker.answer()
    keys = plpy.execute(f"SELECT * FROM {table}").colnames()
    rows = [dict(zip(keys, r.pop("g"), strict=False), **r) for r in answer["rows"]]
    record = {"method": method, "source_table": source, "out_table": table, "dependent_varname": request.dependent, "independent_varname": request.independent,
            "grouping_cols": request.grouping, "grouping_col": request.grouping, "dependent_vartype": vartype, **answer["summary"]}  # fmt: skip
    for name, records in ((table, rows), (summary, [record])):
        plan = plpy.prepare(
            f"INSERT INTO {name} SELECT * FROM pg_catalog.jsonb_populate_recordset(NULL::{name}, $1)",
            ["jsonb"],
        )
        plpy.execute(plan, [json.dumps(records)])
