//! Queries with the answers that Oracle and PostgreSQL give.

use super::{
    tests::{Memory, worlds},
    *,
};
use plinth_engine::admin::HeaderStatus;

/// A result as text: columns are separated by `|`, rows by a line's end.
fn told(memory: &Memory, query: &str) -> Result<String> {
    let query = Query::new(query)?;
    let table = run(memory, &query, &[], &Cancel::default(), &mut Vec::new())?;
    let value = |value: &Value| match value {
        Value::Null => "~".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Blob(_) => "?".to_owned(),
    };
    let row = |row: &Vec<Value>| row.iter().map(value).collect::<Vec<_>>().join("|");
    Ok(table.rows.iter().map(row).collect::<Vec<_>>().join("\n"))
}

fn headings(memory: &Memory, query: &str) -> String {
    let query = Query::new(query).expect(query);
    let table = run(memory, &query, &[], &Cancel::default(), &mut Vec::new()).expect("a result");
    table.columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>().join("|")
}

/// Oracle's number of a refusal.
fn number(memory: &Memory, query: &str) -> String {
    let refusal = told(memory, query).expect_err(query);
    let detail = refusal.detail.unwrap_or_default();
    detail.split_once("ORA-").map_or_else(|| detail.clone(), |(_, number)| number.to_owned())
}

fn oracle() -> Memory {
    let (mut memory, _) = worlds();
    memory.choice = Choice::Always(Rules::Oracle);
    memory
}

/// Compares answers; all that differ are shown.
fn answer(memory: &Memory, expected: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (query, answer) in expected {
        let found = told(memory, query).unwrap_or_else(|refusal| format!("refused: {refusal}"));
        if found != *answer {
            wrong.push(format!("{query}\n  answers {found:?}\n  and not {answer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const DISKS: &str = "(SELECT 'a' name, NULL label, 1 free, 4 total FROM dual UNION ALL
    SELECT 'b', 'L', 0, 0 FROM dual UNION ALL SELECT 'c', 'K', 3, 8 FROM dual) d";

#[test]
fn an_empty_text_is_null_in_oracle() {
    let lines = format!("SELECT name||'|'||label||'|'||free FROM {DISKS} ORDER BY name");
    answer(
        &oracle(),
        &[
            ("select 'a'||null||'b' from dual", "ab"),
            (&lines, "a||1\nb|L|0\nc|K|3"),
            ("select count(*) from dual where '' is null", "1"),
            ("select count(*) from dual where '' = ''", "0"),
            ("select nvl('','empty') from dual", "empty"),
            ("select length('') from dual", "~"),
            ("select length('abc'||'') from dual", "3"),
            ("select '' || '' from dual", "~"),
            ("select decode('', null, 'is null', 'is not') from dual", "is null"),
            ("select replace('a b c', ' ', '') from dual", "abc"),
            ("select replace('abc', 'b') from dual", "ac"),
            ("select nvl(replace('a', 'a'), 'none') from dual", "none"),
            ("select nvl(substr('abc', 5), 'none') from dual", "none"),
            (
                "select nvl(trim('   '), 'none'), nvl(ltrim('xx', 'x'), 'none') from dual",
                "none|none",
            ),
            ("select nvl(translate('abc', 'x', ''), 'none') from dual", "none"),
            ("select nvl(regexp_substr('abc', 'x*'), 'none') from dual", "none"),
            ("select substr('abcdef', 0, 2), substr('abcdef', -3, 2) from dual", "ab|de"),
            ("select coalesce('', null, 'x') from dual", "x"),
            ("select case when '' is null then 1 else 2 end from dual", "1"),
            (
                "select listagg(n, '') within group (order by n) from (select 'a' n from dual union all select 'b' from dual)",
                "ab",
            ),
            ("select count(*) from dual where 'x\\y' like 'x\\_'", "1"),
        ],
    );
    let bound = Query::new("select nvl($1, 'empty') from dual").expect("a query");
    let table =
        run(&oracle(), &bound, &[Value::Text(String::new())], &Cancel::default(), &mut Vec::new());
    assert_eq!(table.expect("a result").rows, [[Value::Text("empty".into())]]);
}

/// A client of PostgreSQL has PostgreSQL's rules, unless its query reads what only Oracle has.
#[test]
fn an_empty_text_is_a_text_in_postgresql() {
    let (memory, _) = worlds();
    answer(
        &memory,
        &[
            ("select 'a'||null||'b'", "~"),
            ("select count(*) where '' is null", "0"),
            ("select length('')", "0"),
            ("select coalesce('', 'x') || 'y'", "y"),
            ("select replace('abc', 'b', NULL)", "~"),
            ("select substr('abc', 0, 2)", "a"),
            (
                "select regexp_replace('aaa', 'a', 'b'), regexp_replace('aaa', 'a', 'b', 'g')",
                "baa|bbb",
            ),
            ("select count(*) where 'DATA_1' like 'DATA\\_1'", "1"),
            ("select 0.5 || 'x', 'a' || 1 + 2", "0.5x|a3"),
            // Oracle's words tell.
            ("select 'a'||null||'b' from dual", "ab"),
            ("select count(*) from v$asm_attribute where '' is null", "137"),
            (
                "select count(*) from v$asm_attribute where value||'' is null and group_number = 1",
                "33",
            ),
        ],
    );
}

#[test]
fn nulls_come_last_and_first_when_descending() {
    let values =
        "(SELECT 2 x FROM dual UNION ALL SELECT NULL FROM dual UNION ALL SELECT 1 FROM dual)";
    let of = |rest: &str| format!("SELECT x FROM {values} {rest}");
    answer(
        &oracle(),
        &[
            (&of("ORDER BY x"), "1\n2\n~"),
            (&of("ORDER BY x ASC"), "1\n2\n~"),
            (&of("ORDER BY x DESC"), "~\n2\n1"),
            (&of("ORDER BY 1 DESC"), "~\n2\n1"),
            (&of("ORDER BY x NULLS FIRST"), "~\n1\n2"),
            (&of("ORDER BY x DESC NULLS LAST"), "2\n1\n~"),
            (&of("ORDER BY x FETCH FIRST 2 ROWS ONLY"), "1\n2"),
            (&of("ORDER BY x DESC LIMIT 1"), "~"),
            (&format!("SELECT * FROM ({}) WHERE ROWNUM <= 2", of("ORDER BY x")), "1\n2"),
            (&format!("SELECT * FROM ({}) WHERE ROWNUM = 1", of("ORDER BY x DESC")), "~"),
            (&of("UNION ALL SELECT NULL FROM dual ORDER BY x"), "1\n2\n~\n~"),
            (
                &format!("SELECT x, row_number() OVER (ORDER BY x) n FROM {values} ORDER BY n"),
                "1|1\n2|2\n~|3",
            ),
            (
                &format!(
                    "SELECT x, row_number() OVER (ORDER BY x DESC) n FROM {values} ORDER BY n"
                ),
                "~|1\n2|2\n1|3",
            ),
            (
                "SELECT listagg(nvl(x, '-'), ',') WITHIN GROUP (ORDER BY x) FROM (SELECT 'b' x FROM dual UNION ALL SELECT NULL FROM dual UNION ALL SELECT 'a' FROM dual)",
                "a,b,-",
            ),
            // Of a view, where engines order and limit.
            (
                "SELECT value FROM v$asm_attribute WHERE group_number = 2 AND file_number IS NULL ORDER BY value DESC FETCH FIRST 1 ROW ONLY",
                "refused: no such column: file_number",
            ),
            (
                "SELECT bytes FROM v$asm_file WHERE group_number = 2 ORDER BY bytes DESC FETCH FIRST 3 ROWS ONLY",
                "~\n~\n~",
            ),
            (
                "SELECT count(*) FROM (SELECT bytes FROM v$asm_file ORDER BY bytes FETCH FIRST 100 ROWS ONLY) WHERE bytes IS NULL",
                "0",
            ),
        ],
    );
}

#[test]
fn decimals_are_decimals() {
    answer(
        &oracle(),
        &[
            (
                "select (to_timestamp('00:00:02.9','hh24:mi:ss.ff1')-to_timestamp('00:00:00.1','hh24:mi:ss.ff1'))*86400 from dual",
                "2.8",
            ),
            (
                "select 0.1 + 0.2, 1.1 * 1.1, 0.3 - 0.1, 7 / 2, 6 / 3, 1 / 3 * 3 from dual",
                "0.3|1.21|0.2|3.5|2|1",
            ),
            (
                "select sum(x) from (select 12.2 x from dual union all select 0.012 from dual)",
                "12.212",
            ),
            ("select avg(x) from (select 0.1 x from dual union all select 0.2 from dual)", "0.15"),
            (
                "select sum(x) over (order by x) from (select 0.1 x from dual union all select 0.2 from dual union all select 0.3 from dual) order by x",
                "0.1\n0.3\n0.6",
            ),
            ("select count(*) from dual where 0.1 + 0.2 = 0.3", "1"),
            (
                "select round(2.5), round(1.005, 2), trunc(-1.29, 1), round(1250, -2), floor(-0.5), ceil(0.5) from dual",
                "3|1.01|-1.2|1300|-1|1",
            ),
            ("select log(10, 1000), power(2, 10), sqrt(16), mod(7.5, 2) from dual", "3|1024|4|1.5"),
            ("select 10/4||'x', 5/10||'x', 10/5||'x' from dual", "2.5x|.5x|2x"),
            ("select to_char(0.5), to_char(10/5) from dual", ".5|2"),
            (
                "select length(0.5), upper(1/2), instr(0.5, '.'), ltrim(0.5, '.'), translate(0.5, '.', ','), regexp_replace(0.5, '\\.', ','), reverse(0.5), length(to_number(null)) from dual",
                "2|.5|1|5|,5|,5|5.|~",
            ),
            (
                "select listagg(x, ' ') within group (order by x), listagg(distinct x, ' ') within group (order by x) from (select 0.5 x from dual union all select 1.0 from dual)",
                ".5 1|.5 1",
            ),
            // || has the precedence of +.
            ("select 1024/1024||' GB', 2*3||'' from dual", "1 GB|6"),
            ("select 1+2||'x' from dual", "3x"),
            ("select '5' + 1, '5' * '2', -'3' from dual", "6|10|-3"),
            (
                "select median(x), percentile_cont(0.25) within group (order by x), stddev(x), variance(x) from (select 1 x from dual union all select 2 from dual union all select 3 from dual union all select 10 from dual)",
                "2.5|1.75|4.08248290463863|16.6666666666667",
            ),
        ],
    );
    for query in [
        "select 1/0 from dual",
        "select 'x' + 1 from dual",
        "select sum(1/(x-x)) from (select 1 x from dual)",
    ] {
        assert!(told(&oracle(), query).is_err(), "{query}");
    }
}

/// A number has all of its digits, or is refused.
#[test]
fn no_digit_is_lost() {
    let memory = oracle();
    answer(
        &memory,
        &[
            (
                "select -9223372036854775808 a, 9223372036854775807 - 1, 123456789012345678 from dual",
                "-9223372036854775808|9223372036854775806|123456789012345678",
            ),
            (
                "select 100000000000000000000, 1e30, 0.1234567890123456 from dual",
                "100000000000000000000|1000000000000000000000000000000|0.1234567890123456",
            ),
            (
                "select 4294967296 * 1024 * 1024, 1099511627776 * 5, 9223372036854775807 + 0 from dual",
                "4503599627370496|5497558138880|9223372036854775807",
            ),
            (
                "select to_number('9007199254740993') - 1, cast('9007199254740993' as number) from dual",
                "9007199254740992|9007199254740993",
            ),
            ("select count(*) from dual where '9007199254740993' = 9007199254740993", "1"),
        ],
    );
    for lost in [
        "123456789012345678901234567890 + 1",
        "12345678901234567.5",
        "0.12345678901234567890",
        "9223372036854775807 + 1",
        "9223372036854775807 * 3",
        "to_number('123456789012345678901')",
        "case when '123456789012345678901' > 5 then 1 end",
        "(select sum(x) from (select 9223372036854775807 x from dual union all select 5 from dual))",
        "to_char(1099511627777 * 1099511627777)",
    ] {
        let refusal = told(&memory, &format!("select {lost} from dual")).expect_err(lost);
        assert!(
            refusal.state == "22003" && refusal.message.contains("digits"),
            "{lost}: {refusal:?}"
        );
    }
    // SQLite makes a real of a product that is too long.
    let refusal = told(
        &memory,
        "select file_number * file_number * file_number * file_number * file_number * file_number * file_number * file_number from v$asm_file",
    );
    assert_eq!(refusal.expect_err("too long").state, "22003");
}

#[test]
fn texts_are_compared_with_numbers_as_numbers() {
    let texts = "(SELECT '10' t, 5 n FROM dual UNION ALL SELECT '9', 50 FROM dual) v";
    let of = |condition: &str| format!("SELECT t FROM {texts} WHERE {condition} ORDER BY n");
    answer(
        &oracle(),
        &[
            (&of("t > 9"), "10"),
            (&of("t < n"), "9"),
            (&of("9 = t"), "9"),
            (&of("t IN (9, 11)"), "9"),
            (&of("t BETWEEN 9.5 AND 20"), "10"),
            (&of("n = '5'"), "10"),
            (&of("(t > 9)"), "10"),
            (&of("(t IN (9, 11))"), "9"),
            (&of("(t NOT IN (9, 11) AND n > 0)"), "10"),
            (&of("NOT (t > 9 AND n > '4')"), "9"),
            (
                "select count(*) from v$asm_file where file_number > '260' and group_number = '1'",
                "95",
            ),
            ("select count(*) from dual where to_char(5) = 5", "1"),
            (
                "select count(*) from dual where to_date('2026-03-07','YYYY-MM-DD') = '07-MAR-26'",
                "1",
            ),
            (
                "select count(*) from dual where to_date('2026-03-07','YYYY-MM-DD') > '2026-03-06'",
                "1",
            ),
        ],
    );
    assert!(told(&oracle(), "select count(*) from v$asm_file where type > 5").is_err());
}

#[test]
fn windows_have_distinct_values_and_ignore_nulls() {
    let rows =
        "(select 1 k, 'a' g, 5 x, 'p' t from dual union all select 2, 'a', null, 'q' from dual
        union all select 3, 'a', 5, 'p' from dual union all select 4, 'a', 7.5, null from dual
        union all select 5, 'b', null, 'r' from dual union all select 6, 'b', 2, 'r' from dual)";
    let of = |expression: &str| format!("select {expression} from {rows} order by k");
    answer(
        &oracle(),
        &[
            (&of("count(distinct x) over (partition by g)"), "2\n2\n2\n2\n1\n1"),
            (&of("count(unique t) over ()"), "3\n3\n3\n3\n3\n3"),
            (&of("sum(distinct x) over (partition by g) s"), "12.5\n12.5\n12.5\n12.5\n2\n2"),
            (
                &of("avg(distinct x) over (partition by g), max(distinct t) over (partition by g)"),
                "6.25|q\n6.25|q\n6.25|q\n6.25|q\n2|r\n2|r",
            ),
            (
                &of(
                    "count(distinct(x)) over (order by k rows between 1 preceding and current row)",
                ),
                "1\n1\n1\n2\n1\n1",
            ),
            (&of("median(x) over (partition by g)"), "5\n5\n5\n5\n2\n2"),
            (
                &of("percentile_disc(1) within group (order by x) over (partition by g)"),
                "7.5\n7.5\n7.5\n7.5\n2\n2",
            ),
            (
                &of("percentile_cont(0.5) within group (order by x desc) over ()"),
                "5\n5\n5\n5\n5\n5",
            ),
            (
                &of("listagg(t, '+') within group (order by k desc) over (partition by g)"),
                "p+q+p\np+q+p\np+q+p\np+q+p\nr+r\nr+r",
            ),
            (
                &of("first_value(x) ignore nulls over (partition by g order by k desc)"),
                "7.5\n7.5\n7.5\n7.5\n2\n2",
            ),
            (
                &of("last_value(x ignore nulls) over (partition by g order by k)"),
                "5\n5\n5\n7.5\n~\n2",
            ),
            (
                &of(
                    "lag(x) ignore nulls over (order by k), lead(x, 2, 0) ignore nulls over (order by k)",
                ),
                "~|7.5\n5|7.5\n5|2\n5|0\n7.5|0\n7.5|0",
            ),
            (
                &of(
                    "nth_value(x, 2) ignore nulls over (order by k), lag(t, 1, '-') respect nulls over (order by k)",
                ),
                "~|-\n~|p\n5|q\n5|p\n5|~\n5|r",
            ),
        ],
    );
    let counted = "count(distinct x) over (partition by g)";
    assert_eq!(headings(&oracle(), &of(counted)), counted);
}

#[test]
fn only_the_result_that_is_chosen_is_computed() {
    let query = format!(
        "SELECT name, DECODE(total, 0, 0, ROUND(free/total*100, 1)) FROM {DISKS} ORDER BY name"
    );
    answer(
        &oracle(),
        &[
            (&query, "a|25\nb|0\nc|37.5"),
            ("select decode(1, 1, decode(0, 0, 'x', 1/0), 2, 1/0) from dual", "x"),
            ("select decode(3, 1, 'one', 'other'), decode(3, 1, 'one') from dual", "other|~"),
            ("select decode(null, 1, 'one', null, 'none') from dual", "none"),
        ],
    );
}

#[test]
fn the_outer_join_of_oracle_is_one() {
    answer(
        &oracle(),
        &[
            (
                "select a.x, b.y from (select 1 x from dual union all select 2 from dual) a, (select 2 x, 'two' y from dual) b where a.x = b.x(+) order by a.x",
                "1|~\n2|two",
            ),
            (
                "select * from (select 2 x, 'two' y from dual) b, (select 1 x from dual union all select 2 from dual) a where b.x(+) = a.x order by a.x",
                "~|~|1\n2|two|2",
            ),
            (
                "select count(*) from v$asm_file f, v$asm_alias a where f.file_number = a.file_number(+) and f.group_number = a.group_number(+)",
                "137",
            ),
        ],
    );
}

#[test]
fn groupings_of_several_kinds_are_joined() {
    let sales = "(SELECT 'a' g, 'x' t, 1 n FROM dual UNION ALL SELECT 'a', 'y', 2 FROM dual UNION ALL SELECT 'b', 'x', 4 FROM dual)";
    let of = |list: &str, by: &str| format!("SELECT {list} FROM {sales} GROUP BY {by}");
    answer(
        &oracle(),
        &[
            (&of("g, sum(n)", "ROLLUP (g) ORDER BY g"), "a|3\nb|4\n~|7"),
            (
                &of(
                    "nvl(g, 'all') k, grouping(g), count(*)",
                    "ROLLUP (g) ORDER BY grouping(g), g DESC",
                ),
                "b|0|1\na|0|2\nall|1|3",
            ),
            (
                &of("g, t, sum(n)", "ROLLUP (g, t) ORDER BY 1, 2"),
                "a|x|1\na|y|2\na|~|3\nb|x|4\nb|~|4\n~|~|7",
            ),
            (
                &of("g, t, sum(n)", "CUBE (g, t) HAVING sum(n) > 3 ORDER BY g, t"),
                "b|x|4\nb|~|4\n~|x|5\n~|~|7",
            ),
            (
                &of("g, t, sum(n)", "GROUPING SETS ((g), (t), ()) ORDER BY g, t"),
                "a|~|3\nb|~|4\n~|x|5\n~|y|2\n~|~|7",
            ),
            (
                &of("g, grouping_id(g, t) i, sum(n)", "g, ROLLUP (t) ORDER BY g, i, 3"),
                "a|0|1\na|0|2\na|1|3\nb|0|4\nb|1|4",
            ),
            (
                "select type, count(*) from v$asm_file group by rollup (type) order by grouping(type) desc fetch first 1 row only",
                "~|137",
            ),
        ],
    );
}

#[test]
fn an_aggregate_of_aggregates_is_one_row_over_the_groups() {
    let sales = "(SELECT 'a' g, 'x' t, 1 n FROM dual UNION ALL SELECT 'a', 'y', 2 FROM dual UNION ALL SELECT 'b', 'x', 4 FROM dual)";
    let of = |list: &str, by: &str| format!("SELECT {list} FROM {sales} {by}");
    let memory = oracle();
    answer(
        &memory,
        &[
            (&of("MAX(SUM(n))", "GROUP BY g"), "4"),
            (
                &of("COUNT(COUNT(*)), AVG(SUM(n)), MAX(COUNT(*)) - MIN(COUNT(*)) d", "GROUP BY g"),
                "2|3.5|1",
            ),
            // HAVING is about the groups; the one row is not ordered.
            (&of("MAX(SUM(n))", "GROUP BY g HAVING COUNT(*) > 1 ORDER BY MAX(SUM(n))"), "3"),
            (&of("MAX(SUM(n))", "GROUP BY g HAVING COUNT(*) > 5"), "~"),
            (&of("MAX(g || SUM(n)), 'x'", "WHERE t = 'x' GROUP BY g"), "b4|x"),
            (
                &of("LISTAGG(g || SUM(n), ',') WITHIN GROUP (ORDER BY SUM(n) DESC)", "GROUP BY g"),
                "b4,a3",
            ),
            (&of("MAX(SUM(n))", "GROUP BY ROLLUP (g)"), "7"),
            ("SELECT MAX(COUNT(*)) FROM v$asm_file GROUP BY group_number", "100"),
            (
                "SELECT type, count(*) FROM v$asm_file f GROUP BY type HAVING count(*) = (SELECT max(count(*)) FROM v$asm_file GROUP BY type)",
                "ARCHIVELOG|57",
            ),
            // Of each row of the outer query.
            (
                &format!(
                    "SELECT o.t, (SELECT MAX(SUM(i.n)) FROM {sales} i WHERE i.t = o.t GROUP BY i.g) m FROM {sales} o ORDER BY o.t, o.g"
                ),
                "x|4\nx|4\ny|2",
            ),
            // A window over the groups is another thing.
            (&of("g, SUM(SUM(n)) OVER () s", "GROUP BY g ORDER BY g"), "a|7\nb|7"),
        ],
    );
    assert_eq!(headings(&memory, &of("Max(sum(n))", "GROUP BY g")), "Max(sum(n))");
    for refused in [
        of("MAX(SUM(n))", ""),
        of("g, MAX(SUM(n))", "GROUP BY g"),
        of("MAX(SUM(COUNT(*)))", "GROUP BY g"),
    ] {
        let refusal = told(&memory, &refused).expect_err(&refused);
        assert!(refusal.at.is_some() && refusal.state == "0A000", "{refused}: {refusal:?}");
    }
}

/// Oracle counts rows before it orders and groups them.
#[test]
fn rownum_counts_before_an_order() {
    let rows = "(SELECT 1 x FROM dual UNION ALL SELECT 3 FROM dual UNION ALL SELECT 2 FROM dual)";
    let of = |list: &str, rest: &str| format!("SELECT {list} FROM {rows} t {rest}");
    answer(
        &oracle(),
        &[
            (&format!("SELECT x FROM {rows} WHERE rownum <= 2 ORDER BY x DESC"), "3\n1"),
            (&of("t.x, rownum r", "WHERE rownum <= 2 ORDER BY t.x DESC"), "3|2\n1|1"),
            (&of("count(*), sum(x)", "WHERE rownum <= 2"), "2|4"),
            (&of("DISTINCT x - x z", "WHERE 2 >= rownum"), "0"),
            (&of("count(*) OVER () c", "WHERE rownum <= 1"), "1"),
            (
                &of("rownum r, x, (SELECT max(dummy) FROM dual) m", "WHERE rownum <= 2"),
                "1|1|X\n2|3|X",
            ),
            // Each operand of a UNION has its own rows.
            (
                &format!(
                    "SELECT 5 x FROM dual UNION ALL {}",
                    of("x", "WHERE rownum <= 2 ORDER BY x DESC")
                ),
                "5\n3\n1",
            ),
            (
                &format!(
                    "{} UNION ALL SELECT 5, 6 FROM dual ORDER BY 1",
                    of("t.x, rownum", "WHERE rownum <= 1")
                ),
                "1|1\n5|6",
            ),
            (
                &format!("{} UNION ALL SELECT 5 FROM dual", of("count(*)", "WHERE rownum <= 2")),
                "2\n5",
            ),
            (
                "SELECT LEVEL FROM dual WHERE rownum <= 2 CONNECT BY LEVEL <= 5 UNION SELECT 9 FROM dual",
                "1\n2\n9",
            ),
            (&of("x", "WHERE rownum <= (SELECT 2 FROM dual) ORDER BY x DESC"), "3\n1"),
            (&of("x", "WHERE rownum BETWEEN 1 AND 2 AND x > 1 ORDER BY x"), "2\n3"),
            // A row that fails gives its number to the next one.
            (&of("x", "WHERE rownum > 1 ORDER BY x"), ""),
            (&of("x", "WHERE rownum BETWEEN 2 AND 5"), ""),
            (&of("x", "WHERE rownum <> 3 ORDER BY x DESC"), "3\n1"),
            (
                &format!(
                    "SELECT a.x, b.y yy FROM {rows} a, (SELECT 5 y FROM dual) b WHERE rownum < 3 AND b.y = 5 ORDER BY a.x + 0 DESC, yy, 2"
                ),
                "3|5\n1|5",
            ),
            ("SELECT count(*) FROM v$asm_file WHERE rownum <= 50 AND group_number = 1", "50"),
            (
                "SELECT v$asm_file.file_number FROM v$asm_file WHERE rownum <= 2 ORDER BY v$asm_file.file_number DESC",
                "257\n256",
            ),
            // A limit in a subquery comes before an order around it, too.
            (
                &format!("SELECT x FROM (SELECT x FROM {rows} WHERE rownum <= 2) ORDER BY x DESC"),
                "3\n1",
            ),
            (
                &format!(
                    "SELECT x FROM (SELECT x FROM {rows} FETCH FIRST 2 ROWS ONLY) ORDER BY x DESC"
                ),
                "3\n1",
            ),
            (
                &format!(
                    "WITH l AS (SELECT x FROM {rows} LIMIT 2) SELECT x FROM l ORDER BY x DESC"
                ),
                "3\n1",
            ),
        ],
    );
    for refused in [
        of("sum(rownum)", ""),
        of("mod(rownum, 2), count(*)", "GROUP BY mod(rownum, 2)"),
        of("x", "WHERE rownum = 1 OR x = 2"),
        format!("SELECT count(*) FROM {rows} a, dual WHERE rownum < 3"),
        format!("SELECT * FROM {rows} a, dual WHERE rownum < 3 ORDER BY x"),
    ] {
        let refusal = told(&oracle(), &refused).expect_err(&refused);
        assert_eq!(refusal.state, "0A000", "{refused}");
    }
}

#[test]
fn rows_are_fetched_with_ties_and_by_percent() {
    let rows = "(SELECT 1 x FROM dual UNION ALL SELECT 1 FROM dual UNION ALL SELECT 3 FROM dual UNION ALL SELECT 2 FROM dual)";
    let of = |list: &str, rest: &str| format!("SELECT {list} FROM {rows} {rest}");
    answer(
        &oracle(),
        &[
            (&of("x", "ORDER BY x FETCH FIRST 1 ROW WITH TIES"), "1\n1"),
            (&of("x", "ORDER BY x FETCH FIRST ROW WITH TIES"), "1\n1"),
            (
                &of("x + 1 y, x", "ORDER BY y DESC OFFSET 1 ROWS FETCH NEXT 2 ROWS WITH TIES"),
                "3|2\n2|1\n2|1",
            ),
            (&of("x", "ORDER BY x DESC FETCH FIRST 50 PERCENT ROWS ONLY"), "3\n2"),
            (&of("*", "ORDER BY x FETCH FIRST 10 PERCENT ROWS WITH TIES"), "1\n1"),
            (&of("x", "ORDER BY x FETCH FIRST 0 PERCENT ROWS ONLY"), ""),
            (&of("x", "ORDER BY x OFFSET 2 ROWS"), "2\n3"),
            (
                &format!("SELECT x FROM ({}) ORDER BY x DESC", of("x", "ORDER BY x OFFSET 2 ROWS")),
                "3\n2",
            ),
            (
                "SELECT type, count(*) FROM v$asm_file GROUP BY type ORDER BY count(*) DESC FETCH FIRST 1 ROWS WITH TIES",
                "ARCHIVELOG|57",
            ),
        ],
    );
    let several = of("x", "UNION SELECT 9 FROM dual ORDER BY 1 FETCH FIRST 10 PERCENT ROWS ONLY");
    assert_eq!(told(&oracle(), &several).expect_err("refused").state, "0A000");
}

#[test]
fn lists_may_be_of_different_values_and_have_windows() {
    let rows = "(SELECT 1 x, 'a' g FROM dual UNION ALL SELECT 3, 'a' FROM dual UNION ALL SELECT 1, 'b' FROM dual)";
    let of = |list: &str, rest: &str| format!("SELECT {list} FROM {rows} {rest}");
    answer(
        &oracle(),
        &[
            (&of("listagg(DISTINCT x, ',') WITHIN GROUP (ORDER BY x DESC)", ""), "3,1"),
            (
                &of(
                    "listagg(DISTINCT x) WITHIN GROUP (ORDER BY x), listagg(x ON OVERFLOW ERROR) WITHIN GROUP (ORDER BY x)",
                    "",
                ),
                "13|113",
            ),
            (
                &of(
                    "listagg(x, ',' ON OVERFLOW TRUNCATE '...' WITH COUNT) WITHIN GROUP (ORDER BY x)",
                    "",
                ),
                "1,1,3",
            ),
            (
                &of(
                    "g, x, listagg(x, ',') WITHIN GROUP (ORDER BY x DESC) OVER (PARTITION BY g) l",
                    "ORDER BY g, x",
                ),
                "a|1|3,1\na|3|3,1\nb|1|1",
            ),
            (
                &of(
                    "listagg(DISTINCT x, ',') WITHIN GROUP (ORDER BY x) OVER () l",
                    "FETCH FIRST 1 ROW ONLY",
                ),
                "1,3",
            ),
        ],
    );
    let (memory, _) = worlds();
    answer(
        &memory,
        &[(
            "select string_agg(distinct x, ',' order by x) from (select 'b' x union all select 'a' union all select 'b') t",
            "a,b",
        )],
    );
}

#[test]
fn windows_may_ignore_nulls() {
    let rows = "(SELECT null x, 1 y FROM dual UNION ALL SELECT 3, 2 FROM dual UNION ALL SELECT null, 3 FROM dual UNION ALL SELECT 5, 4 FROM dual)";
    let of = |list: &str| format!("SELECT {list} FROM {rows} ORDER BY y");
    answer(
        &oracle(),
        &[
            (
                &of(
                    "first_value(x IGNORE NULLS) OVER (ORDER BY y), last_value(x) IGNORE NULLS OVER (ORDER BY y)",
                ),
                "~|~\n3|3\n3|3\n3|5",
            ),
            (
                &of(
                    "lag(x IGNORE NULLS, 1, 0) OVER (ORDER BY y), lead(x) IGNORE NULLS OVER (ORDER BY y)",
                ),
                "0|3\n0|5\n3|5\n3|~",
            ),
            (&of("lag(x, 2) IGNORE NULLS OVER (ORDER BY y DESC)"), "5\n~\n~\n~"),
            (
                &of(
                    "nth_value(x, 2) FROM LAST IGNORE NULLS OVER (ORDER BY y ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) n, nth_value(x, 2) FROM FIRST OVER (ORDER BY y)",
                ),
                "3|~\n3|3\n3|3\n3|3",
            ),
            (
                &of(
                    "first_value(x RESPECT NULLS) OVER (ORDER BY y), lag(x) RESPECT NULLS OVER (ORDER BY y), lag(y, 1, -1) OVER (ORDER BY y)",
                ),
                "~|~|-1\n~|~|1\n~|3|2\n~|~|3",
            ),
            (
                "SELECT x, ratio_to_report(x) OVER (PARTITION BY y) r FROM (SELECT 1 x, 1 y FROM dual UNION ALL SELECT 3, 1 FROM dual UNION ALL SELECT 5, 2 FROM dual) ORDER BY x",
                "1|0.25\n3|0.75\n5|1",
            ),
        ],
    );
}

#[test]
fn the_first_rows_are_kept_by_several_keys_and_in_windows() {
    let rows = "(SELECT 'a' g, 1 x, 5 y FROM dual UNION ALL SELECT 'a', 2, 5 FROM dual UNION ALL SELECT 'b', 9, null FROM dual UNION ALL SELECT 'b', 7, 1 FROM dual)";
    answer(
        &oracle(),
        &[
            (
                &format!(
                    "SELECT g, max(x) KEEP (DENSE_RANK LAST ORDER BY y, x DESC) m, min(x) KEEP (DENSE_RANK FIRST ORDER BY y DESC NULLS LAST) n, count(*) KEEP (DENSE_RANK FIRST ORDER BY y) c, avg(x) KEEP (DENSE_RANK FIRST ORDER BY y, x) a FROM {rows} GROUP BY g ORDER BY g"
                ),
                "a|1|1|2|1\nb|9|7|1|7",
            ),
            (
                &format!(
                    "SELECT g, x, max(x) KEEP (DENSE_RANK LAST ORDER BY y) OVER (PARTITION BY g) m FROM {rows} ORDER BY g, x"
                ),
                "a|1|2\na|2|2\nb|7|9\nb|9|9",
            ),
        ],
    );
}

#[test]
fn operands_of_set_operations_may_be_in_parentheses() {
    answer(
        &oracle(),
        &[
            ("(SELECT 1 FROM dual) UNION (SELECT 2 FROM dual) ORDER BY 1", "1\n2"),
            ("(SELECT 1 x FROM dual UNION ALL SELECT 2 FROM dual) MINUS SELECT 2 FROM dual", "1"),
            ("SELECT 1 FROM dual UNION (SELECT 2 FROM dual MINUS SELECT 2 FROM dual)", "1"),
            (
                "SELECT x FROM ((SELECT 1 x FROM dual) UNION ALL (SELECT 2 FROM dual)) WHERE x > 1",
                "2",
            ),
            (
                "SELECT count(*) FROM dual WHERE 2 IN ((SELECT 1 FROM dual) UNION (SELECT 2 FROM dual))",
                "1",
            ),
            ("(SELECT 5 FROM dual)", "5"),
            (
                "WITH a AS (SELECT 1 x FROM dual) (SELECT x FROM a) UNION ALL (SELECT x + 1 FROM a)",
                "1\n2",
            ),
            // From the left in Oracle.
            ("SELECT 1 FROM dual UNION SELECT 2 FROM dual INTERSECT SELECT 2 FROM dual", "2"),
            (
                "SELECT 1 x FROM dual UNION ALL SELECT 2 FROM dual MINUS SELECT 2 FROM dual UNION ALL SELECT 2 FROM dual ORDER BY x",
                "1\n2",
            ),
        ],
    );
    let (memory, _) = worlds();
    answer(
        &memory,
        &[
            ("select 1 union select 2 intersect select 2", "1\n2"),
            ("select 1 union select 2 intersect select 3 intersect select 2 order by 1 desc", "1"),
            ("select 2 intersect select 2 union select 1 order by 1", "1\n2"),
            ("select x from (select 1 x union select 2) t order by x limit all offset 1", "2"),
            ("select x from (select 1 x union select 2) t order by x offset 1", "2"),
            ("select x from (select 1 x union select 2) t order by x limit 1 offset 1 row", "2"),
            (
                "select x from (select 1 x union select 2) t order by x offset 0 fetch next row only",
                "1",
            ),
            ("select count(*) from (select 1 except select 1 intersect select 2) x", "1"),
        ],
    );
    let refusal = told(&memory, "select 1 except all select 2").expect_err("refused");
    assert_eq!((refusal.state.as_str(), refusal.at), ("0A000", Some(16)));
}

#[test]
fn comparisons_may_be_with_all_and_any() {
    let rows = "(SELECT 1 x FROM dual UNION ALL SELECT 3 FROM dual UNION ALL SELECT 2 FROM dual)";
    let of = |condition: &str| format!("SELECT x FROM {rows} WHERE {condition} ORDER BY x");
    answer(
        &oracle(),
        &[
            (&of(&format!("x >= ALL (SELECT x FROM {rows})")), "3"),
            (&of(&format!("x > ANY (SELECT x FROM {rows})")), "2\n3"),
            (&of("x < SOME (2, 3)"), "1\n2"),
            (&of("x > ALL (1, 2)"), "3"),
            (&of("x > ALL (SELECT 1 FROM dual WHERE 1 = 2)"), "1\n2\n3"),
            (&of("x > ALL (SELECT NULL FROM dual)"), ""),
            (&of("x = ANY (1, 3)"), "1\n3"),
            (&of("x <> ALL (1, 3)"), "2"),
            (&of("(x, 1) IN (SELECT 1, 1 FROM dual) OR (x, 2) IN ((1, 3), (3, 2))"), "1\n3"),
        ],
    );
}

/// A refusal of syntax that is not here names the word, and tells how to do without it.
#[test]
fn what_is_not_here_is_refused_at_its_place() {
    for (query, at) in [
        ("SELECT a.x FROM (SELECT 1 x FROM dual) a, LATERAL (SELECT a.x FROM dual) b", "LATERAL"),
        ("SELECT a.x FROM (SELECT 1 x FROM dual) a CROSS APPLY (SELECT a.x FROM dual) b", "APPLY"),
        (
            "SELECT * FROM dual MODEL DIMENSION BY (dummy) MEASURES (1 x) RULES (x['a'] = 1)",
            "MODEL",
        ),
        ("SELECT * FROM dual MATCH_RECOGNIZE (ORDER BY dummy)", "MATCH_RECOGNIZE"),
        ("SELECT * FROM XMLTABLE('a' PASSING b)", "XMLTABLE"),
        ("SELECT XMLAGG(XMLELEMENT(e, dummy || ',')).extract('//text()') FROM dual", "XMLAGG"),
        (
            "WITH t(a) AS (SELECT 1 FROM dual UNION ALL SELECT a + 1 FROM t WHERE a < 3) SEARCH DEPTH FIRST BY a SET o SELECT * FROM t",
            "SEARCH",
        ),
        (
            "WITH t(a) AS (SELECT 1 FROM dual UNION ALL SELECT a + 1 FROM t WHERE a < 3) CYCLE a SET c TO 1 DEFAULT 0 SELECT * FROM t",
            "CYCLE",
        ),
        ("SELECT * FROM v$asm_file FOR UPDATE", "FOR"),
        ("SELECT * FROM TABLE(x)", "TABLE"),
        ("SELECT ORA_HASH(1) FROM dual", "ORA_HASH"),
        ("SELECT DBMS_RANDOM.VALUE FROM dual", "DBMS_RANDOM"),
        ("SELECT JSON_VALUE('{}', '$.a') FROM dual", "JSON_VALUE"),
    ] {
        let refusal = told(&oracle(), query).expect_err(query);
        assert_eq!(refusal.at, query.find(at), "{query}: {refusal:?}");
        assert!(refusal.state == "0A000" && refusal.hint.is_some(), "{query}: {refusal:?}");
    }
}

/// Recursive queries as Oracle writes them, without a word for it.
#[test]
fn recursive_queries_need_no_word() {
    answer(
        &oracle(),
        &[
            (
                "WITH t(a, b) AS (SELECT 1, 'x' FROM dual UNION ALL SELECT a + 1, b || 'y' FROM t WHERE a < 3) SELECT a, b FROM t",
                "1|x\n2|xy\n3|xyy",
            ),
            (
                "WITH t AS (SELECT 1 a FROM dual), u AS (SELECT a + 1 b FROM t) SELECT t.a, u.b FROM t, u",
                "1|2",
            ),
            (
                "SELECT x, y FROM (SELECT 1 x FROM dual) NATURAL JOIN (SELECT 1 x, 2 y FROM dual)",
                "1|2",
            ),
            (
                "SELECT x, y FROM (SELECT 1 x FROM dual) JOIN (SELECT 1 x, 2 y FROM dual) USING (x)",
                "1|2",
            ),
            (
                "SELECT any_value(x), approx_count_distinct(x), wm_concat(x) FROM (SELECT 1 x FROM dual UNION ALL SELECT 1 FROM dual)",
                "1|1|1,1",
            ),
            (
                "SELECT (SELECT max(x) FROM (SELECT 1 x FROM dual) i WHERE i.x = o.x) m FROM (SELECT 1 x FROM dual) o",
                "1",
            ),
        ],
    );
}

#[test]
fn columns_become_rows() {
    let of = |list: &str, unpivot: &str| {
        format!(
            "SELECT {list} FROM (SELECT 1 a, 2 b, NULL c, 4 d, 'x' e FROM dual) UNPIVOT {unpivot} ORDER BY n"
        )
    };
    answer(
        &oracle(),
        &[
            (&of("*", "(v FOR n IN (a, b AS 'bee', c))"), "4|x|A|1\n4|x|bee|2"),
            (&of("e, n, v", "INCLUDE NULLS (v FOR n IN (b, c)) u"), "x|B|2\nx|C|~"),
            (&of("e, n, v, w", "((v, w) FOR n IN ((a, b) AS 1, (c, d) AS 2))"), "x|1|1|2\nx|2|~|4"),
            (
                "SELECT n, count(v) FROM v$asm_file UNPIVOT (v FOR n IN (bytes, space)) WHERE group_number = 1 GROUP BY n ORDER BY n",
                "BYTES|86\nSPACE|100",
            ),
        ],
    );
    let refusal = told(&oracle(), "SELECT * FROM (SELECT * FROM dual) UNPIVOT (v FOR n IN (a, b))");
    assert_eq!(refusal.expect_err("unknown columns").state, "0A000");
}

#[test]
fn a_hierarchy_may_go_in_a_circle() {
    let rows = "(SELECT 1 x, 2 y FROM dual UNION ALL SELECT 2, 1 FROM dual UNION ALL SELECT 3, 2 FROM dual)";
    let of = |list: &str, connect: &str| {
        format!("SELECT {list} FROM {rows} START WITH x = 1 CONNECT BY {connect} PRIOR x = y")
    };
    answer(
        &oracle(),
        &[
            (&of("LEVEL, x", "NOCYCLE"), "1|1\n2|2\n3|3"),
            (
                &of(
                    "x, CONNECT_BY_ISCYCLE c, CONNECT_BY_ISLEAF l, SYS_CONNECT_BY_PATH(x, '/') p",
                    "NOCYCLE",
                ),
                "1|0|0|/1\n2|1|0|/1/2\n3|0|1|/1/2/3",
            ),
            ("SELECT LEVEL FROM dual CONNECT BY NOCYCLE PRIOR dummy = dummy", "1"),
            ("SELECT LEVEL FROM dual CONNECT BY LEVEL <= 3", "1\n2\n3"),
        ],
    );
    let circle = told(&oracle(), &of("LEVEL, x", "")).expect_err("a circle");
    assert!(circle.message.contains("NOCYCLE"), "{circle:?}");
    assert!(told(&oracle(), &of("CONNECT_BY_ISCYCLE", "")).is_err());
}

/// An error of a function has the state of what is wrong, and is no syntax error.
#[test]
fn errors_of_functions_have_their_states() {
    for (expression, state) in [
        ("1 / (dummy - dummy)", "22P02"),
        ("1 / (length(dummy) - 1)", "22012"),
        ("to_number('x')", "22P02"),
        ("next_day(sysdate, 'x')", "22000"),
    ] {
        let refusal =
            told(&oracle(), &format!("SELECT {expression} FROM dual")).expect_err(expression);
        assert_eq!(refusal.state, state, "{expression}: {refusal:?}");
    }
}

#[test]
fn values_become_columns() {
    let source = "(SELECT 'a' g, 'x' t, 1 n FROM dual UNION ALL SELECT 'a', 'y', 2 FROM dual UNION ALL SELECT 'b', 'x', 4 FROM dual)";
    let pivot = |what: &str| {
        format!("SELECT * FROM (SELECT g, t, n FROM {source}) PIVOT ({what}) ORDER BY g")
    };
    answer(
        &oracle(),
        &[
            (&pivot("sum(n) FOR t IN ('x' AS x, 'y' AS y)"), "a|1|2\nb|4|~"),
            (&pivot("sum(n) s, count(*) c FOR t IN ('x' x)"), "a|1|1\nb|4|1"),
        ],
    );
    assert_eq!(
        headings(&oracle(), &pivot("sum(n) s, max(n) FOR t IN ('x' x, 'y')")),
        "g|x_s|x|'y'_s|'y'"
    );
}

#[test]
fn a_hierarchy_may_have_several_tables() {
    let (a, b) = (
        "(SELECT 1 i, 0 p, 'db' n, 7 k FROM dual UNION ALL SELECT 2, 1, 'users', 7 FROM dual UNION ALL SELECT 3, 1, 'temp', 8 FROM dual)",
        "(SELECT 7 k, 'DATA' g FROM dual UNION ALL SELECT 9, 'FRA' FROM dual)",
    );
    answer(
        &oracle(),
        &[(
            &format!(
                "SELECT '+' || b.g || SYS_CONNECT_BY_PATH(a.n, '/') path, LEVEL FROM {a} a, {b} b WHERE a.k = b.k AND a.n <> 'db' START WITH a.p = 0 CONNECT BY PRIOR a.i = a.p"
            ),
            "+DATA/db/users|2",
        )],
    );
}

#[test]
fn calls_with_words_are_calls() {
    answer(
        &oracle(),
        &[
            (
                "select extract(hour from to_date('2026-03-07 15:04:09','YYYY-MM-DD HH24:MI:SS')), extract(year from date '2026-03-07') from dual",
                "15|2026",
            ),
            (
                "select extract(second from to_timestamp('00:00:02.5','hh24:mi:ss.ff')) from dual",
                "2.5",
            ),
            ("select json_object('k' value 1, 'v' value 'x') from dual", r#"{"k":1,"v":"x"}"#),
            ("select json_object(key 'k' value 1 null on null) from dual", r#"{"k":1}"#),
            (
                "select max(n) keep (dense_rank first order by d desc) from (select 1 n, 5 d from dual union all select 2, 7 from dual union all select 3, 7 from dual)",
                "3",
            ),
            (
                "select min(n) keep (dense_rank last order by d) from (select 1 n, 5 d from dual union all select 2, 7 from dual union all select 3, 7 from dual)",
                "2",
            ),
            (
                "select round(ratio_to_report(n) over (), 2) from (select 1 n from dual union all select 3 from dual) order by 1",
                "0.25\n0.75",
            ),
            ("select bitand(12, 10), rawtohex('AB'), ascii('a') from dual", "8|4142|97"),
            ("select unique x from (select 1 x from dual union all select 1 from dual)", "1"),
            (
                "select count(unique x) from (select 1 x from dual union all select 1 from dual)",
                "1",
            ),
            ("select q'[it's]' || q'{a'}' from dual", "it'sa'"),
            (
                "select trim(both 'x' from 'xxaxx'), trim(leading '0' from '007'), trim('  b ') from dual",
                "a|7|b",
            ),
            (
                "select regexp_substr('a,b,c', '[^,]+', 1, 2), regexp_instr('a,b,c', ','), regexp_count('a,b,c', ','), regexp_substr('k=v', '(k)=(v)', 1, 1, 'i', 2) from dual",
                "b|2|2|v",
            ),
            (
                r"select regexp_replace('a/b', '/', '\'), regexp_replace('a.b.c', '\.', '-', 1, 2), regexp_replace('ab', '(a)(b)', '\2\1') from dual",
                r"a\b|a.b-c|ba",
            ),
            (
                "select to_char(to_date('2026-03-07','YYYY-MM-DD') + interval '2' hour, 'HH24'), to_char(to_date('2026-03-07','YYYY-MM-DD') + numtodsinterval(90, 'minute'), 'HH24:MI') from dual",
                "02|01:30",
            ),
            (
                "select round(months_between(date '2026-03-31', date '2026-02-28'), 2), months_between(date '2026-03-15', date '2026-01-15') from dual",
                "1|2",
            ),
        ],
    );
}

#[test]
fn functions_that_are_used_less_are_there() {
    answer(
        &oracle(),
        &[
            (
                "SELECT TO_CHAR(NEXT_DAY(DATE '2026-03-07', 'MONDAY'), 'YYYY-MM-DD'), TO_CHAR(DATE '2026-03-07', 'fmDay, ddth Month YYYY'), TO_CHAR(255, 'fm0xxx') FROM dual",
                "2026-03-09|Saturday, 7th March 2026|00ff",
            ),
            (
                "SELECT REMAINDER(-7, 3), remainder(15, 6), remainder(15, 4), remainder(11.6, 2), nanvl(1, 2) FROM dual",
                "-1|3|-1|-0.4|1",
            ),
            (
                "select greatest(1, '2'), greatest('2', 10), least(date '2026-01-01', '01-JAN-25'), greatest(1, null) from dual",
                "2|2|2025-01-01 00:00:00|~",
            ),
            (
                "select to_number('x' default -1 on conversion error), to_number('1.234,5', '9G999D9', 'NLS_NUMERIC_CHARACTERS='',.'''), to_date('x' default null on conversion error, 'YYYY') from dual",
                "-1|1234.5|~",
            ),
            (
                "select lnnvl(1 = 1), lnnvl(null > 5), lnnvl(1 = 2), width_bucket(5, 0, 10, 5), width_bucket(10, 0, 10, 5), width_bucket(-1, 0, 10, 5), bin_to_num(1, 0, 1) from dual",
                "0|1|1|3|6|0|5",
            ),
            (
                "select soundex('Smith'), soundex('Tymczak'), nls_upper('aé', 'NLS_SORT=XGerman'), nls_initcap('ab cd'), lengthb('é') from dual",
                "S530|T522|AÉ|Ab Cd|2",
            ),
            (
                "select name from (select 'b' name from dual union all select 'A' from dual) order by nlssort(name, 'NLS_SORT=BINARY_CI')",
                "A\nb",
            ),
            ("select sin(0), cos(0), atan2(0, 1), cosh(0) from dual", "0|1|0|1"),
            (
                "select current_date - sysdate, round(current_timestamp(0) - systimestamp) from dual",
                "0|0",
            ),
        ],
    );
    for refused in [
        "next_day(sysdate, 'x')",
        "nlssort('x', 'NLS_SORT=GERMAN')",
        "to_char(sysdate, 'Day', 'NLS_DATE_LANGUAGE=german')",
    ] {
        assert!(told(&oracle(), &format!("select {refused} from dual")).is_err(), "{refused}");
    }
}

/// CAST rounds and cuts, and refuses what is no number.
#[test]
fn casts_convert() {
    answer(
        &oracle(),
        &[
            (
                "select cast('12' as number), cast(12.345 as number(5,2)), cast(2.7 as integer), cast(1234.5 as number(4)), cast(1250 as number(5,-2)) from dual",
                "12|12.35|3|1235|1300",
            ),
            (
                "select cast(0.5 as varchar2(10)), cast('abcdef' as varchar2(3)), cast('ab' as char(4)) || '|' from dual",
                ".5|abc|ab  |",
            ),
            (
                "select cast(timestamp '2026-03-07 15:04:09.7' as date), cast(date '2026-03-07' as timestamp), cast('07-MAR-26' as date) from dual",
                "2026-03-07 15:04:09|2026-03-07 00:00:00|2026-03-07 00:00:00",
            ),
            (
                "select cast(null as number(3)), cast(null as varchar2(3)), cast(null as date) from dual",
                "~|~|~",
            ),
            (
                "select cast(group_number as varchar2(5)) || 'x' from v$asm_file where rownum = 1",
                "1x",
            ),
        ],
    );
    for refused in [
        "cast('x' as number)",
        "cast('x' as integer)",
        "cast(1234.5 as number(3))",
        "cast('x' as date)",
    ] {
        assert!(told(&oracle(), &format!("select {refused} from dual")).is_err(), "{refused}");
    }
    let (memory, _) = worlds();
    answer(
        &memory,
        &[(
            "select cast('2026-03-07 15:00:00' as date), 2.345::numeric(5,2), 'abc'::varchar(2)",
            "2026-03-07|2.35|ab",
        )],
    );
}

#[test]
fn intervals_and_time_zones_are_counted_with() {
    answer(
        &oracle(),
        &[
            (
                "select date '2026-01-28' + interval '1-1' year to month, date '2026-01-30' - interval '2' year, date '2026-01-30' + numtoyminterval(2, 'month'), date '2026-01-30' + interval '1 02:30:00' day to second from dual",
                "2027-02-28 00:00:00|2024-01-30 00:00:00|2026-03-30 00:00:00|2026-01-31 02:30:00",
            ),
            (
                "select to_dsinterval('1 12:00:00'), to_yminterval('1-2'), date '2026-01-01' + to_dsinterval('0 06:00:00'), interval '90' minute * 24 from dual",
                "1.5|+000000001-02|2026-01-01 06:00:00|1.5",
            ),
            ("select count(*) from dual where sysdate - interval '1' month < sysdate", "1"),
            (
                "select extract(day from (systimestamp - (systimestamp - 2.5))) d, extract(hour from numtodsinterval(1.5, 'day')) h from dual",
                "2|12",
            ),
            (
                "select from_tz(timestamp '2026-03-07 15:00:00', '+02:00'), timestamp '2026-03-07 15:00:00' at time zone '+02:00', tz_offset('UTC'), dbtimezone, sessiontimezone, new_time(date '2026-03-07', 'GMT', 'EST') from dual",
                "2026-03-07 13:00:00|2026-03-07 17:00:00|+00:00|+00:00|+00:00|2026-03-06 19:00:00",
            ),
            (
                "select to_timestamp_tz('2026-03-07 15:04:09 +02:00', 'YYYY-MM-DD HH24:MI:SS TZH:TZM') from dual",
                "2026-03-07 13:04:09",
            ),
            (
                "select round(date '2026-08-16', 'Q'), trunc(date '2026-08-16', 'IYYY'), round(date '2026-08-16', 'MM') from dual",
                "2026-10-01 00:00:00|2025-12-29 00:00:00|2026-09-01 00:00:00",
            ),
        ],
    );
    for refused in [
        // Oracle has no 31st of February.
        "date '2026-01-31' + interval '1' month",
        "systimestamp at time zone 'Europe/Paris'",
        "to_yminterval('x')",
        "trunc(sysdate, 'SS')",
    ] {
        assert!(told(&oracle(), &format!("select {refused} from dual")).is_err(), "{refused}");
    }
    let (memory, _) = worlds();
    answer(
        &memory,
        &[
            (
                "select date '2026-01-31' + interval '1 month', '2 hours'::interval * 24, '1 day 12:00'::interval",
                "2026-02-28 00:00:00|2|1.5",
            ),
            (
                "select to_timestamp(0), date_trunc('week', timestamp '2026-03-07 15:00:00')",
                "1970-01-01 00:00:00|2026-03-02 00:00:00",
            ),
            ("select greatest(1, null, 3), least(null, 2), greatest(null, null)", "3|2|~"),
        ],
    );
}

/// What Oracle does not reserve can be a name.
#[test]
fn words_can_be_names() {
    const NAMES: &str = "left right full inner outer cross natural nothing primary foreign references constraint commit transaction returning deferrable autoincrement join using limit offset fetch when escape collate except isnull notnull match glob regexp over filter window within keep nulls range groups pivot unpivot end begin indexed cast raise key value replace abort row_number count first last partition interval zone action plan query if temp";
    let memory = oracle();
    let queries: Vec<String> = NAMES
        .split(' ')
        .map(|name| {
            format!("SELECT t.{name}, {name} AS {name}, {name} x FROM (SELECT 1 {name}, 2 other FROM dual) t WHERE {name} = 1 AND t.{name} > 0 ORDER BY {name}")
        })
        .collect();
    let expected: Vec<(&str, &str)> = queries.iter().map(|query| (&**query, "1|1|1")).collect();
    answer(&memory, &expected);
    answer(
        &memory,
        &[
            ("SELECT 1 left, 2 right, 3 key, 4 value FROM dual", "1|2|3|4"),
            ("SELECT left.right FROM (SELECT 1 right FROM dual) left", "1"),
            // They still mean what they mean.
            (
                "SELECT a.x, b.x FROM (SELECT 1 x FROM dual) a LEFT OUTER JOIN (SELECT 2 x FROM dual) b ON a.x = b.x NATURAL JOIN dual CROSS JOIN dual",
                "1|~",
            ),
            (
                "SELECT left('abc', 2), right('abc', 1), CASE WHEN 1 = 1 THEN 2 ELSE 3 END end FROM dual",
                "ab|c|2",
            ),
            (
                "SELECT x FROM (SELECT 1 x FROM dual UNION ALL SELECT 2 FROM dual) ORDER BY x OFFSET 1 ROWS FETCH NEXT 1 ROW ONLY",
                "2",
            ),
            (
                "SELECT sum(x) OVER (ORDER BY x RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM (SELECT 1 x FROM dual)",
                "1",
            ),
            (
                "SELECT max(x) KEEP (DENSE_RANK FIRST ORDER BY y) keep, count(*) FILTER (WHERE x > 1) filter FROM (SELECT 1 x, 1 y FROM dual)",
                "1|0",
            ),
        ],
    );
    let (memory, _) = worlds();
    answer(&memory, &[("select 1 isnull, null notnull, 'x' like 'y' escape 'z'", "0|0|0")]);
}

#[test]
fn headings_are_what_was_written() {
    let memory = oracle();
    for (query, heading) in [
        ("SELECT COUNT(*) FROM dual", "COUNT(*)"),
        ("SELECT count(*), Max(group_number) m FROM v$asm_file", "count(*)|m"),
        ("SELECT level FROM dual CONNECT BY LEVEL <= 2", "level"),
        (
            "SELECT d.name, g.name gname FROM v$asm_attribute d, v$asm_alias g WHERE 1 = 2",
            "name|gname",
        ),
        ("SELECT sysdate, user FROM dual", "sysdate|user"),
        ("SELECT free_mb/1024, 'x' FROM (SELECT 1 free_mb FROM dual)", "free_mb/1024|'x'"),
        ("SELECT * FROM (SELECT type, count(*) FROM v$asm_file GROUP BY type)", "type|count(*)"),
        ("SELECT \"count(*)\" FROM (SELECT count(*) FROM dual)", "count(*)"),
    ] {
        assert_eq!(headings(&memory, query), heading, "{query}");
    }
}

/// The column of the result, even if two tables have one of that name.
#[test]
fn a_column_of_the_result_can_be_ordered_by() {
    answer(
        &oracle(),
        &[(
            "SELECT a.name, b.name other FROM (SELECT 'x' name, 1 n FROM dual UNION ALL SELECT 'y', 2 FROM dual) a, (SELECT 'q' name, 1 n FROM dual UNION ALL SELECT 'p', 2 FROM dual) b WHERE a.n = b.n ORDER BY name DESC",
            "y|p\nx|q",
        )],
    );
}

/// A sum of a converted column counts each row.
#[test]
fn sums_of_conversions_count_each_row() {
    let (memory, _) = worlds();
    let exact = told(&memory, "SELECT sum(space) FROM v$asm_file").expect("a sum");
    for sum in [
        "sum(space::int)",
        "sum(plinth_int(space))",
        "sum(space / 1)",
        "sum(space * 1.0)",
        "sum(to_number(space))",
    ] {
        let by_type =
            format!("SELECT sum(s) FROM (SELECT type, {sum} s FROM v$asm_file GROUP BY type)");
        assert_eq!(told(&memory, &by_type).as_deref(), Ok(&*exact), "{sum}");
    }
}

/// A view and its twin are two relations: a query may read both, and the twin shows no disks of
/// other groups then either.
#[test]
fn a_view_and_its_twin_have_their_own_rows() {
    let mut memory = oracle();
    let disk = |path: &str, header, group: Option<&str>| Survey {
        path: path.to_owned(),
        header,
        group: group.map(str::to_owned),
        group_id: group.map(str::to_owned),
        aliases: Vec::new(),
        name: None,
        failure_group: None,
        number: None,
        quorum: false,
        label: None,
        device: path.to_owned(),
        size: 0,
        logical_sector: 512,
        physical_sector: 512,
        can_discard: false,
        is_held: false,
        remark: None,
    };
    memory.surveyed = vec![
        disk("/spare", HeaderStatus::Candidate, None),
        disk("/other", HeaderStatus::Member, Some("OTHER")),
    ];
    let counts = |names: &[&str]| {
        let counts: Vec<String> =
            names.iter().map(|name| format!("(SELECT count(*) FROM {name})")).collect();
        format!("SELECT {} FROM dual", counts.join(", "))
    };
    answer(
        &memory,
        &[
            (&counts(&["v$asm_disk", "v$asm_disk_stat"]), "2|0"),
            (&counts(&["v$asm_disk_stat"]), "0"),
            (&counts(&["v$asm_diskgroup", "v$asm_diskgroup_stat"]), "1|0"),
            (&counts(&["gv$asm_disk", "gv$asm_disk_stat", "v$asm_disk"]), "2|0|2"),
            (&counts(&["V$ASM_DISK_STAT", "gv$asm_diskgroup", "gv$asm_diskgroup_stat"]), "0|1|0"),
            (
                "SELECT path FROM v$asm_disk MINUS SELECT path FROM v$asm_disk_stat ORDER BY 1",
                "/other\n/spare",
            ),
            ("SELECT count(*) FROM v$asm_disk NATURAL JOIN v$asm_disk_stat", "0"),
            // A view of this name is no twin.
            (&counts(&["v$asm_volume", "v$asm_volume_stat"]), "0|3"),
            ("SELECT volume_name FROM v$asm_volume_stat WHERE group_number = 2", "VOL"),
        ],
    );
}

proptest::proptest! {
    /// Whatever the words are, a query is rewritten or refused, and errors point into it.
    #[test]
    fn any_words_are_rewritten_or_refused(words in proptest::collection::vec(proptest::sample::select(WORDS), 0..60)) {
        let text = format!("SELECT {}", words.join(" "));
        if let Ok(query) = Query::new(&text) {
            for rules in [Rules::Oracle, Rules::PostgreSql] {
                match pg_compat::rewrite(&query, rules) {
                    Ok(rewritten) => {
                        let ends = (0..=rewritten.sql.len()).map(|byte| rewritten.origin(byte));
                        proptest::prop_assert!(ends.max().unwrap_or(0) <= text.chars().count());
                    }
                    Err(refusal) => proptest::prop_assert!(refusal.at.unwrap_or(0) <= text.chars().count()),
                }
            }
        }
    }
}

/// Words that mean something to one of the rewritings.
const WORDS: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "HAVING",
    "AND",
    "OR",
    "NOT",
    "a",
    "b.c",
    "'x'",
    "''",
    "1",
    "0.5",
    "(",
    ")",
    "(",
    ")",
    ",",
    "||",
    "+",
    "-",
    "*",
    "/",
    "=",
    "<",
    "(+)",
    "DECODE(",
    "ROLLUP(",
    "CUBE(",
    "GROUPING SETS(",
    "GROUPING(",
    "PIVOT(",
    "FOR",
    "IN",
    "IN (",
    "SUM(",
    "COUNT(*)",
    "MAX(",
    "KEEP (DENSE_RANK FIRST",
    "OVER (",
    "WITHIN GROUP (",
    "LISTAGG(",
    "PERCENTILE_CONT(",
    "RATIO_TO_REPORT(",
    "EXTRACT(",
    "JSON_OBJECT(",
    "VALUE",
    "START WITH",
    "CONNECT BY",
    "PRIOR",
    "LEVEL",
    "ROWNUM",
    "<= 5",
    "SYS_CONNECT_BY_PATH(",
    "UNION ALL",
    "FETCH FIRST 3 ROWS ONLY",
    "NULLS FIRST",
    "DESC",
    "AS",
    "é",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "BETWEEN",
    "LIKE",
    "DATE '2026-01-01'",
    "INTERVAL '2' HOUR",
    "TRIM(BOTH",
    "q'[it's]'",
    "::int",
    "v$asm_disk d",
    "dual",
    "DISTINCT",
    "ANY (",
    "ARRAY[",
    "]",
    "NULL",
    "IS",
    ".",
    "JOIN",
    "ON",
    "\"q\"",
    "UNPIVOT (v FOR n",
    "LISTAGG(DISTINCT",
    "ON OVERFLOW ERROR",
    "FIRST_VALUE(",
    "IGNORE NULLS",
    "FROM LAST",
    "NOCYCLE",
    "CONNECT_BY_ISCYCLE",
    "INTERSECT",
    "MINUS",
    "UNION",
    "(SELECT",
    "ALL (",
    ">=",
    "FETCH FIRST 3 PERCENT ROWS WITH TIES",
    "AT TIME ZONE",
    "CAST(",
    "AS NUMBER(5,2))",
    "INTERVAL '1-2' YEAR TO MONTH",
    "left",
    "limit",
    "WHERE ROWNUM <= 5",
    "MAX(SUM(",
    "123456789012345678901",
    "DEFAULT 1 ON CONVERSION ERROR",
];

/// The operands of set operations may stand in parentheses, with queries of any kind in them.
#[test]
fn operands_of_set_operations_stand_in_parentheses() {
    let memory = oracle();
    answer(
        &memory,
        &[
            ("(select 1 from dual) union all (select 2 from dual)", "1\n2"),
            ("(select 1 from dual) union all select 1 from dual", "1\n1"),
            ("select 1 from dual union (select 1 from dual)", "1"),
            ("select x from ((select 1 x from dual) union all (select 2 from dual))", "1\n2"),
            (
                "select * from ((select 3 x from dual union select 1 from dual) minus (select 1 from dual))",
                "3",
            ),
            (
                "((select 1 from dual) union (select 2 from dual)) intersect (select 2 from dual)",
                "2",
            ),
            (
                "with a as ((select 1 x from dual) union all (select 2 from dual)) select sum(x) from a",
                "3",
            ),
            (
                "(select 'c' from dual order by 1 fetch first 1 rows only) union all (select 'z' from dual)",
                "c\nz",
            ),
            // A list behind IN is no operand.
            ("select 1 from dual where 1 in (select 1 from dual) union select 2 from dual", "1\n2"),
            ("select (select 1 from dual) from dual union select 2 from dual", "1\n2"),
        ],
    );
    let columns = headings(&memory, "(select 1 as one from dual) union all (select 2 from dual)");
    assert_eq!(columns, "one");
}

/// A row that fails a condition on ROWNUM gives its number to the next one.
#[test]
fn rownum_is_compared_with_constants() {
    let rows = |condition: &str| {
        let query = format!("SELECT name FROM {DISKS} WHERE {condition}");
        told(&oracle(), &query).expect(&query).split_whitespace().count()
    };
    for (condition, expected) in [
        ("rownum = 0", 0),
        ("rownum = 1", 1),
        ("rownum = 2", 0),
        ("rownum > 0", 3),
        ("rownum > 1", 0),
        ("rownum >= 1", 3),
        ("rownum >= 2", 0),
        ("rownum <> 1", 0),
        ("rownum != 3", 2),
        ("rownum <> 0", 3),
        ("2 >= rownum", 2),
        ("2 > rownum and free >= 0", 1),
        ("1 = rownum", 1),
        ("0 < rownum", 3),
    ] {
        assert_eq!(rows(condition), expected, "{condition}");
    }
}

/// A value that does not fit is no syntax error.
#[test]
fn values_that_do_not_fit_have_the_numbers_of_oracle() {
    let memory = oracle();
    for (query, expected) in [
        ("select 1 / 0 from dual", "01476"),
        ("select mod(7, 0) / 0 from dual", "01476"),
        ("select to_number('abc') from dual", "01722"),
        ("select 1 from dual where 'x' = 1", "01722"),
        ("select to_date('abc', 'YYYY') from dual", "01861"),
        ("select to_date('2026-13-01', 'YYYY-MM-DD') from dual", "01861"),
        ("select nosuch from dual", "00904"),
        ("select 1 from nosuch", "00942"),
        ("select from dual", "00900"),
    ] {
        assert_eq!(number(&memory, query), expected, "{query}");
    }
}

/// Parentheses around a column are not part of its name.
#[test]
fn a_column_in_parentheses_keeps_its_name() {
    let query = format!("select distinct(name), ((d.free)), (free + 1), (sysdate) from {DISKS}");
    assert_eq!(headings(&oracle(), &query), "name|free|(free + 1)|(sysdate)");
}
