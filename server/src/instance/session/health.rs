//! The rows of `v$asm_health`.

use super::{
    Context,
    facts::{maybe, number, text},
};
use plinth_engine::admin::Value;

impl Context {
    pub(super) fn of_health(&self) -> Vec<Vec<(&'static str, Value)>> {
        let rows = self.instance.health().into_iter();
        rows.map(|found| {
            let (group, name) =
                found.group.map_or((0, None), |(number, name)| (number, Some(name)));
            let value = found.value;
            vec![
                ("group_number", number(group)),
                ("group_name", maybe(name)),
                ("severity", text(found.severity.word())),
                ("kind", text(found.kind.word())),
                ("subject", maybe(found.subject)),
                ("detail", text(found.detail)),
                ("remedy", maybe(found.remedy)),
                ("value", value.map_or(Value::Null, |(value, _)| Value::Real(value))),
                ("unit", maybe(value.map(|(_, unit)| unit.word()))),
                ("con_id", Value::Integer(0)),
            ]
        })
        .collect()
    }
}
