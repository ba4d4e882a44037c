//! Messages that wait, so that a request can be taken back before its turn.

use std::collections::VecDeque;

use serde_json::Value;

use super::frame::Frame;

/// The next work of the server.
#[derive(PartialEq, Debug)]
pub enum Work {
    /// Answer this.
    Request {
        /// A number or a text of the client.
        id: Value,
        /// The name of the method.
        method: String,
        /// The arguments.
        params: Value,
    },
    /// Say that the request has been taken back.
    Cancelled {
        /// Of the request.
        id: Value,
    },
    /// Take this in.
    Notification {
        /// The name of the method.
        method: String,
        /// The arguments.
        params: Value,
    },
    /// Say that something was no message.
    Malformed {
        /// True if it was at least JSON.
        json: bool,
        /// Of the request, if it had one that can be used.
        id: Value,
        /// The reason.
        message: String,
    },
}

/// Messages in the order in which they came.
#[derive(Default)]
pub struct Queue {
    waiting: VecDeque<Work>,
}

impl Queue {
    /// Takes in a message.
    pub fn push(&mut self, frame: Frame) {
        let mut value = match frame {
            Frame::Message(value) => value,
            Frame::Malformed(message) => {
                return self.waiting.push_back(Work::Malformed { json: false, id: Value::Null, message });
            }
        };
        let id = value.get("id").cloned();
        let usable = id.as_ref().is_none_or(|id| id.is_string() || id.is_number());
        let params = value.get_mut("params").map(Value::take).unwrap_or(Value::Null);
        match (value.get("method").and_then(Value::as_str), id) {
            (Some("$/cancelRequest"), None) => self.cancel(&params["id"]),
            (Some(method), Some(id)) if usable => {
                self.waiting.push_back(Work::Request { id, method: method.to_owned(), params });
            }
            (Some(method), None) => {
                self.waiting.push_back(Work::Notification { method: method.to_owned(), params });
            }
            // An answer: this server asks nothing, so nobody waits for it.
            (None, Some(_)) if usable && (value.get("result").is_some() || value.get("error").is_some()) => {}
            (_, id) => {
                let id = id.filter(|_| usable).unwrap_or(Value::Null);
                let message = "this is neither a request nor a notification".to_owned();
                self.waiting.push_back(Work::Malformed { json: true, id, message });
            }
        }
    }

    /// Takes the next work out.
    pub fn pop(&mut self) -> Option<Work> {
        self.waiting.pop_front()
    }

    /// Takes a waiting request back. A request that waits no longer has been answered already.
    fn cancel(&mut self, wanted: &Value) {
        let taken =
            self.waiting.iter_mut().find(|work| matches!(work, Work::Request { id, .. } if id == wanted));
        if let Some(work) = taken {
            *work = Work::Cancelled { id: wanted.clone() };
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn queue(messages: &[Value]) -> Vec<Work> {
        let mut queue = Queue::default();
        messages.iter().for_each(|message| queue.push(Frame::Message(message.clone())));
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn requests_that_wait_can_be_taken_back() {
        let request = |id: Value| json!({ "id": id, "method": "m" });
        let kept = |id: Value| Work::Request { id, method: "m".to_owned(), params: Value::Null };
        let cancel = |id: Value| json!({ "method": "$/cancelRequest", "params": { "id": id } });
        let found = queue(&[request(json!(1)), request(json!("1")), cancel(json!("1")), cancel(json!(7))]);
        assert_eq!(found, [kept(json!(1)), Work::Cancelled { id: json!("1") }]);
    }

    #[test]
    fn only_messages_are_done() {
        let found = queue(&[
            json!([]),
            json!({ "id": {}, "method": "m" }),
            json!({ "id": 3 }),
            json!({ "id": 3, "result": 1 }),
        ]);
        let ids: Vec<_> = found
            .iter()
            .map(|work| match work {
                Work::Malformed { json: true, id, .. } => id.clone(),
                work => panic!("{work:?}"),
            })
            .collect();
        assert_eq!(ids, [Value::Null, Value::Null, json!(3)]);
    }
}
