//! Steps about waits for changes of others.

use serde_json::{Value as Json, json};

use super::Machine;
use super::json::whole;

impl Machine<'_> {
    pub fn wait(&mut self, step: &Json, op: &str, what: &Json) -> Option<Json> {
        match op {
            "wait" => {
                let admitted = self.admit();
                let recorded = self.recorder.wait(admitted, whole(what) as u32, self.place);
                self.results(step, recorded);
                None
            }
            "wait_ms" => Some(json!(self.recorder.wait_ms())),
            "is_same" => {
                let [one, other] = [0, 1].map(|index| self.slot(&what[index]));
                Some(json!(self.recorder.is_same(one, other)))
            }
            _ => Some(json!(self.recorder.transaction_ends())),
        }
    }
}
