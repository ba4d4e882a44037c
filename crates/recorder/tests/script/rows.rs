//! Steps of tables, and of types at run time.

use bifrost_recorder::{Came, Operand, Slot};
use bifrost_wire::{Arg, Ref, Value};
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
            "get" => {
                let object = self.slot(what);
                self.recorder.get(admitted, object, place)
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
        let mut objects = Vec::new();
        let table = self.slot(table);
        let read = self.recorder.read_items(table, |came, slots| match came {
            Came::Compound(compound) => items(compound.iter(), slots, &mut objects),
            Came::Rows(rows) => {
                let cells = items(rows.args(), slots, &mut objects);
                cells.chunks(rows.columns().len()).map(|row| json!(row)).collect()
            }
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
        read.map_or(Json::Null, Json::from)
    }
}

/// Returns items; objects by their number among all.
fn items<'a>(
    items: impl Iterator<Item = Arg<'a>>,
    slots: &mut dyn FnMut(Ref) -> Slot,
    objects: &mut Vec<Slot>,
) -> Vec<Json> {
    let item = |item| match item {
        Arg::Value(Value::Compound(inner)) => Json::from(self::items(inner.iter(), slots, objects)),
        Arg::Value(value) => bifrost_wire::json::value(&value),
        Arg::Ref(handle) => {
            objects.push(slots(handle));
            json!({"object": objects.len()})
        }
    };
    items.map(item).collect()
}
