//! A statement that needs all memory is refused, and the next one runs. The test has a process of
//! its own, because the limit is the process's.

use plinth_engine::admin::{AdminError, Survey, Value};
use plinth_server::{
    query::{self, Cancel, Estimated, Source},
    sql::Query,
};
use std::collections::BTreeMap;

/// No groups.
struct Nothing;

impl Source for Nothing {
    fn groups(&self) -> BTreeMap<String, u32> {
        BTreeMap::new()
    }

    fn query(
        &self,
        _: &str,
        _: &str,
        _: &mut dyn FnMut(usize, Vec<u8>) -> Result<(), AdminError>,
    ) -> Result<(), AdminError> {
        Ok(())
    }

    fn survey(&self) -> Result<Vec<Survey>, AdminError> {
        Ok(Vec::new())
    }

    fn estimates(&self) -> Vec<Estimated> {
        Vec::new()
    }

    fn password_users(&self) -> Vec<Vec<Value>> {
        Vec::new()
    }

    fn user(&self) -> String {
        "scott".into()
    }
}

#[test]
fn a_statement_does_not_take_all_memory() {
    let run = |sql: &str| {
        let query = Query::new(sql).expect("tokens");
        query::run(&Nothing, &query, &[], &Cancel::default(), &mut Vec::new())
    };
    let endless = "WITH RECURSIVE r(x, h) AS (SELECT 1, 'a' UNION SELECT x + 1, hex(zeroblob(100000)) || x FROM r) \
                   SELECT count(DISTINCT h) FROM r";
    let refusal = run(endless).expect_err("it never ends");
    assert_eq!(refusal.state, "54000", "{refusal:?}");
    assert_eq!(run("SELECT 1").expect("the memory is given back").rows, [[Value::Integer(1)]]);
}
