//! Steps of tables, and of types at run time.

use bifrost_recorder::{Operand, RowCell};
use bifrost_wire::Value;
use serde_json::{Value as Json, json};

use super::Machine;
use super::json::{self, field, text};

impl Machine<'_> {
    /// Steps of tables, and of types at run time.
    pub fn rows_and_types<'a>(
        &mut self,
        step: &Json,
        op: &str,
        what: &Json,
        operands: impl ExactSizeIterator<Item = Operand<'a>>,
    ) -> Option<Json> {
        let place = self.place;
        if op == "read_rows" {
            return Some(self.read_rows(step, what));
        }
        let admitted = self.admit();
        let recorded = match op {
            "rows" => {
                let names = json::names(Some(what));
                let types: Vec<(u32, &str)> = names.iter().map(|n| (self.client.ty(n), n.as_str())).collect();
                self.recorder.rows(admitted, &types, place)
            }
            "emit" => {
                let table = self.slot(what);
                self.recorder.emit(admitted, table, operands, place)
            }
            _ => {
                let (object, ty) = (self.slot(field(step, "on")), (self.client.ty(text(what)), text(what)));
                match op {
                    "cast" => self.recorder.cast(admitted, object, ty, place),
                    _ => self.recorder.test_type(admitted, object, ty, place),
                }
            }
        };
        self.results(step, recorded);
        None
    }

    /// Reads the rows of a table; its objects get the names of the step, in order, and the others are
    /// dropped.
    fn read_rows(&mut self, step: &Json, table: &Json) -> Json {
        let (mut rows, mut objects) = (Vec::new(), Vec::new());
        let table = self.slot(table);
        let read = self.recorder.read_rows(table, |cells| {
            let cells = cells.map(|cell| match cell {
                RowCell::Value(value) => bifrost_wire::json::value(&value),
                RowCell::Object(slot) => {
                    objects.push(slot);
                    json!({"object": objects.len()})
                }
            });
            rows.push(cells.collect::<Vec<Json>>());
        });
        let mut names = json::names(step.get("as")).into_iter();
        for object in objects {
            match names.next() {
                Some(name) => self.name(&name, object),
                None => self.recorder.release(object),
            }
        }
        // A changed reply may have fewer.
        for name in names {
            let slot = self.recorder.new_value(Value::Nil);
            self.name(&name, slot);
        }
        if read { json!(rows) } else { Json::Null }
    }
}
