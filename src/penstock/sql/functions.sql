-- Functions of Penstock in a server. `penstock sql` puts in the text of server.py, and the worker's command.
-- They run with the rights, and in the search path, of who calls them: functions are qualified, and operators have operands of the catalog's own
-- types, so that no object of another schema fits better, as long as pg_catalog is the first to be searched, which it is unless a path names it.
CREATE OR REPLACE FUNCTION penstock.train_rows(method text, source text, out_table text, dependent text, independent text, grouping_cols text, options jsonb)
RETURNS jsonb LANGUAGE plpython3u AS $body$
$server
try:
    return train(plpy, $command, Request(*args))
except Refused as problem:
    return json.dumps(problem.said)
except plpy.SPIError as problem:
    return json.dumps(refusal(problem).said)
$body$;

-- an error is raised here, where nothing of Python's stands before it
CREATE OR REPLACE FUNCTION penstock.refuse(said jsonb) RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
    state text := coalesce(said OPERATOR(pg_catalog.->>) 'state', '22023');
    detail text := said OPERATOR(pg_catalog.->>) 'detail';
    message text := said OPERATOR(pg_catalog.->>) 'message';
    hint text := coalesce(said OPERATOR(pg_catalog.->>) 'hint', 'docs/howto/sql.md says more');
BEGIN
    IF detail IS NULL THEN
        RAISE USING ERRCODE = state, MESSAGE = message, HINT = hint;
    END IF;
    RAISE USING ERRCODE = state, MESSAGE = message, DETAIL = detail, HINT = hint;
END $body$;

CREATE OR REPLACE FUNCTION penstock.train_model(method text, source text, out_table text, dependent text, independent text, grouping_cols text, options jsonb)
RETURNS void LANGUAGE sql AS $body$
    SELECT penstock.refuse(said) FROM penstock.train_rows(method, source, out_table, dependent, independent, grouping_cols, options) said WHERE said IS NOT NULL;
$body$;

CREATE OR REPLACE FUNCTION penstock.version() RETURNS text LANGUAGE sql AS $body$
    SELECT coalesce(said OPERATOR(pg_catalog.->>) 'version', penstock.refuse(said)::text) FROM penstock.train_rows('version', NULL, NULL, NULL, NULL, NULL, NULL) said;
$body$;

CREATE OR REPLACE FUNCTION penstock.linregr_train(source_table text, out_table text, dependent_varname text, independent_varname text,
    grouping_cols text DEFAULT NULL, heteroskedasticity_option boolean DEFAULT false) RETURNS void LANGUAGE plpgsql AS $body$
BEGIN
    IF heteroskedasticity_option THEN
        RAISE invalid_parameter_value USING MESSAGE = 'there is no test of heteroskedasticity', HINT = 'leave heteroskedasticity_option out';
    END IF;
    PERFORM penstock.train_model('linregr', source_table, out_table, dependent_varname, independent_varname, grouping_cols, '{}');
END $body$;

CREATE OR REPLACE FUNCTION penstock.logregr_train(source_table text, out_table text, dependent_varname text, independent_varname text,
    grouping_cols text DEFAULT NULL, max_iter integer DEFAULT 100, optimizer text DEFAULT 'igd', tolerance float8 DEFAULT 0.0001,
    verbose boolean DEFAULT false) RETURNS void LANGUAGE plpgsql AS $body$
BEGIN
    IF optimizer IS DISTINCT FROM 'igd' AND optimizer IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('there is no optimizer %s', optimizer), HINT = 'write ''igd'', or leave it out: gradient descent';
    END IF;
    PERFORM penstock.train_model('logregr', source_table, out_table, dependent_varname, independent_varname, grouping_cols,
        pg_catalog.jsonb_build_object('max_iter', coalesce(max_iter, 100), 'tolerance', coalesce(tolerance, 0.0001)));
END $body$;

CREATE OR REPLACE FUNCTION penstock.svm_classification(source_table text, model_table text, dependent_varname text, independent_varname text,
    kernel_func text DEFAULT 'linear', kernel_params text DEFAULT NULL, grouping_col text DEFAULT NULL, params text DEFAULT NULL,
    verbose boolean DEFAULT false) RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
    part text;
    name text;
    options jsonb := '{"max_iter": 100, "tolerance": 0.0001, "lambda": 0.01}';
BEGIN
    IF coalesce(kernel_func, 'linear') <> 'linear' OR coalesce(kernel_params, '') <> '' THEN
        RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('there is no kernel %s %s', kernel_func, kernel_params),
            HINT = 'write ''linear'', without kernel_params; other kernels are not to be had';
    END IF;
    FOREACH part IN ARRAY pg_catalog.regexp_split_to_array(coalesce(params, ''), '\s*,\s*') LOOP
        name := pg_catalog.lower(trim(pg_catalog.split_part(part, '=', 1)));
        CONTINUE WHEN part = '' OR (name = 'norm' AND pg_catalog.upper(trim(pg_catalog.split_part(part, '=', 2))) = 'L2');
        IF NOT options ? name OR trim(pg_catalog.split_part(part, '=', 2)) !~ '^[0-9]+(\.[0-9]*)?(e-?[0-9]+)?$$' THEN
            RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('there is no parameter %s', part),
                HINT = 'params are max_iter=100, tolerance=0.0001, lambda=0.01, norm=L2';
        END IF;
        options := options || pg_catalog.jsonb_build_object(name, trim(pg_catalog.split_part(part, '=', 2))::numeric);
    END LOOP;
    PERFORM penstock.train_model('svm', source_table, model_table, dependent_varname, independent_varname, grouping_col, options);
END $body$;

CREATE OR REPLACE FUNCTION penstock.train(kernel text, source text, "out" text, dependent text, independent text, options jsonb DEFAULT '{}')
RETURNS void LANGUAGE sql AS $body$
    SELECT penstock.train_model('train', source, "out", dependent, independent, NULL,
        pg_catalog.jsonb_build_object('kernel', kernel, 'options', coalesce(options, '{}'), 'labelled', coalesce(dependent, '') <> ''));
$body$;

CREATE OR REPLACE FUNCTION penstock.linregr_predict(coef float8[], col_ind_var float8[]) RETURNS float8
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $body$
BEGIN
    IF pg_catalog.cardinality(coef) <> pg_catalog.cardinality(col_ind_var) THEN
        RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('%s coefficients for %s variables', pg_catalog.cardinality(coef), pg_catalog.cardinality(col_ind_var)),
            HINT = 'give the variables that the model was trained on, a 1 for the constant among them';
    END IF;
    RETURN (SELECT CASE WHEN pg_catalog.bool_and(c * x IS NOT NULL) THEN pg_catalog.sum(c * x) END FROM unnest(coef, col_ind_var) t(c, x));
END $body$;

CREATE OR REPLACE FUNCTION penstock.logregr_predict_prob(coef float8[], col_ind_var float8[]) RETURNS float8
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $body$
    SELECT CASE WHEN z = 'NaN'::float8 THEN z WHEN z IS NOT NULL THEN 1::float8 / (1::float8 + pg_catalog.exp(greatest(-700, least(700, -z)))) END FROM (SELECT penstock.linregr_predict(coef, col_ind_var) z) s;
$body$;

CREATE OR REPLACE FUNCTION penstock.logregr_predict(coef float8[], col_ind_var float8[]) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $body$ SELECT nullif(penstock.linregr_predict(coef, col_ind_var), 'NaN'::float8) >= 0::float8; $body$;

-- A table's whole name, behind a lock that keeps it until the transaction ends. What the table says is run, so this raises where it is no ordinary
-- table, where what it says has types of somebody's, whose casts are run too, or where somebody may write it or rename its schema who is no member
-- of each role that it would run as: the caller's, and those that SET left. Superusers are, and so is the database's owner in schemas of his.
CREATE OR REPLACE FUNCTION penstock.own_table(name text) RETURNS text LANGUAGE plpgsql AS $body$
DECLARE
    found oid := pg_catalog.to_regclass(name);
    whole text;
    other text;
BEGIN
    IF found IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('there is no table %s', name), HINT = 'svm_classification writes a model and its summary';
    END IF;
    EXECUTE pg_catalog.format('LOCK TABLE ONLY %s IN ACCESS SHARE MODE', name);
    SELECT pg_catalog.format('%I.%I', n.nspname, c.relname), (SELECT pg_catalog.min(r.rolname::text)
        FROM pg_catalog.pg_roles w JOIN pg_catalog.pg_roles r ON NOT w.rolsuper AND NOT r.rolsuper AND r.rolcanlogin AND pg_catalog.pg_has_role(r.oid, w.oid, 'MEMBER'),
        pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) login,
        pg_catalog.unnest(ARRAY[current_user, CASE WHEN pg_catalog.current_setting('role') <> 'none' THEN session_user END, nullif(pg_catalog.pg_get_userbyid(login.usesysid), session_user)]) me
        WHERE (w.oid IN (c.relowner, nullif(n.nspowner, 'pg_database_owner'::pg_catalog.regrole::oid)) OR pg_catalog.has_any_column_privilege(w.oid, c.oid, 'INSERT, UPDATE'))
            AND NOT pg_catalog.pg_has_role(r.oid, me, 'MEMBER'))
        INTO whole, other FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = found AND c.relkind = 'r' AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute t WHERE t.attrelid = found AND t.atttypid::bigint >= 16384
            AND t.attname = ANY ('{coef,__dep_var_mapping,independent_varname,grouping_col,dependent_vartype}'));
    IF other IS NOT NULL OR whole IS NULL OR pg_catalog.to_regclass(whole)::oid IS DISTINCT FROM found THEN
        RAISE invalid_parameter_value USING
            MESSAGE = pg_catalog.format('%s is no table of yours', name) || coalesce(': ' || other || ' may write it', ', or no plain one'),
            HINT = 'expressions that it holds would run with your rights: look at both tables, and copy them';
    END IF;
    RETURN whole;
END $body$;

CREATE OR REPLACE FUNCTION penstock.svm_predict(model_table text, new_data_table text, id_col_name text, output_table text)
RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
    parts text[];
    last integer;
    model text;
    summary text;
    fields record;
    groups text := '';
    state text;
    message text;
    detail text;
    hint text;
BEGIN
    IF model_table IS NULL OR new_data_table IS NULL OR id_col_name IS NULL OR output_table IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'an argument is NULL', HINT = 'svm_predict(model_table, new_data_table, id_col_name, output_table)';
    END IF;
    parts := pg_catalog.parse_ident(model_table);
    last := pg_catalog.array_length(parts, 1);
    SELECT pg_catalog.string_agg(pg_catalog.quote_ident(p || CASE WHEN n = last THEN '_summary' ELSE '' END), '.' ORDER BY n), pg_catalog.string_agg(pg_catalog.quote_ident(p), '.' ORDER BY n)
        INTO summary, model FROM pg_catalog.unnest(parts) WITH ORDINALITY u(p, n);
    IF pg_catalog.to_regclass(new_data_table) IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('there is no table %s', new_data_table), HINT = 'qualify it with its schema, and quote it as in SQL';
    END IF;
    summary := penstock.own_table(summary);
    model := penstock.own_table(model);
    -- one statement: others may train the model anew meanwhile
    EXECUTE pg_catalog.format('SELECT independent_varname AS x, grouping_col AS g, dependent_vartype AS t, (SELECT pg_catalog.array_agg(m) FROM ONLY %s m) AS m FROM ONLY %s',
        model, summary) INTO fields;
    IF fields.x IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('the summary of the model %s is empty', model_table), HINT = 'svm_classification writes both';
    END IF;
    fields.g := nullif(trim(fields.g), '');
    IF fields.g IS NOT NULL THEN
        groups := pg_catalog.format(' USING (%s)', fields.g);
    END IF;
    DISCARD PLANS; -- of an earlier call: its rows were another model's type
    EXECUTE pg_catalog.format('CREATE TABLE %1$$s AS SELECT %2$$s, (of_classes[CASE WHEN d = ''NaN''::float8 THEN NULL WHEN d > 0::float8 THEN 2 WHEN d <= 0::float8 THEN 1 END])::%3$$s AS prediction, '
        'd AS decision_function FROM (SELECT %2$$s, of_classes, penstock.linregr_predict(of_model, (%4$$s)::float8[]) AS d FROM %5$$s '
        '%6$$s JOIN (SELECT %7$$s coef AS of_model, __dep_var_mapping AS of_classes FROM pg_catalog.unnest($$1)) m %8$$s) s',
        (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(p), '.') FROM pg_catalog.unnest(pg_catalog.parse_ident(output_table)) p), id_col_name, fields.t, fields.x,
        pg_catalog.to_regclass(new_data_table), CASE WHEN groups = '' THEN 'CROSS' END, fields.g || ',', groups) USING fields.m;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    PERFORM penstock.refuse(pg_catalog.jsonb_build_object('state', state, 'message', message, 'detail', nullif(detail, ''), 'hint', coalesce(nullif(hint, ''),
        pg_catalog.format('svm_predict reads id_col_name, %s, and the variables of %s from %s, and makes the table %s', id_col_name, model_table, new_data_table, output_table))));
END $body$;
