//! Replies to answers: the results of a batch, its exceptions, and the other replies.
//!
//! [`Translator::reply`] takes the reply that a line made due. The future of a name becomes the
//! handle or the value that came, and handles without a name are given back at the next flush.

use serde_json::json;

use crate::error::ErrorNumber;
use crate::ids::{Ref, TypeNumber};
use crate::mention::with_names;
use crate::profile::OwnedProfile;
use crate::reply::{Exception, ExceptionKind, FlushedReply, Outcome, Reply};
use crate::value::{Arg, Value};

use super::answer::{Answer, Item};
use super::print;
use super::translate::{Asked, Due, Known, Stage, Translator, Typed};

impl Translator {
    /// Turns a reply into an answer, and remembers the values of names in it. The contents of the
    /// objects in the answer may have to be asked for. Then commands are appended to `out`, and
    /// their reply is due before there is an answer.
    pub fn reply(&mut self, reply: &Reply<'_>, out: &mut Vec<u8>, answer: &mut String) -> Due {
        let text = match reply {
            Reply::Flushed(flushed) => {
                return match std::mem::take(&mut self.stage) {
                    Stage::Idle => self.flushed(Asked::default(), flushed, out, answer),
                    Stage::Flush(asked) => self.flushed(asked, flushed, out, answer),
                    Stage::Looks(begun, looks) => self.looked(begun, looks, flushed, out, answer),
                };
            }
            Reply::Exceptions(history) => {
                let all = history.iter().len() as u64 + history.omitted;
                let items =
                    history.iter().map(|(batch, exception)| (batch, self.exception(&exception, None)));
                if self.json {
                    let items = items.map(|(batch, mut item)| {
                        item.json.insert("batch".to_owned(), json!(batch));
                        item.json
                    });
                    let items: Vec<_> = items.collect();
                    format!("{}", json!({"history": items, "omitted": history.omitted}))
                } else {
                    let lines = items.map(|(batch, item)| format!("batch {batch}: {}\n", item.text));
                    format!("{}ok {all} exceptions", lines.collect::<String>())
                }
            }
            Reply::Interface(json) => String::from_utf8_lossy(json).into_owned(),
            Reply::Welcome(w) => {
                self.set_limits(w.limits.iter());
                match self.json {
                    true => {
                        json!({"welcome": w.version, "server": w.server, "session": w.session}).to_string()
                    }
                    false => format!("welcome {} {} session {}", w.version, w.server, w.session),
                }
            }
            Reply::Farewell if self.json => json!({"bye": true}).to_string(),
            Reply::Farewell => "bye".to_owned(),
            Reply::Error { number, position, text } => {
                let name = ErrorNumber::from_number(*number).map_or("error", ErrorNumber::name);
                match self.json {
                    true => json!({"error": name, "number": number, "position": position, "text": text})
                        .to_string(),
                    false => format!("error {number} {name} at command {position}: {text}"),
                }
            }
        };
        answer.push_str(&text);
        answer.push('\n');
        Due::Nothing
    }

    /// Returns an exception, with the names of the conversation.
    fn exception(&self, exception: &Exception<'_>, call: Option<&str>) -> Item {
        let interface = self.numbering.interface();
        let ExceptionKind::Refused { number, text } = exception.kind else {
            let line = print::exception(interface, exception, call);
            return Item::exception(interface, exception, call, line);
        };
        let text = with_names(text, |handle| self.name_of(handle));
        let named = exception.with_kind(ExceptionKind::Refused { number, text: &text });
        let line = print::exception(interface, &named, call);
        Item::exception(interface, &named, call, line)
    }

    /// Returns the name that the conversation has for a handle.
    fn name_of(&self, handle: Ref) -> Option<String> {
        let named = self.bindings.iter().rev().find(|b| b.typed.known == Known::Ref(handle))?;
        Some(format!("`${}`", named.name))
    }

    fn flushed(
        &mut self,
        asked: Asked,
        reply: &FlushedReply<'_>,
        out: &mut Vec<u8>,
        text: &mut String,
    ) -> Due {
        let numbering = self.numbering.clone();
        let interface = numbering.interface();
        let mut settled: Vec<(u32, Typed, Item)> = Vec::new();
        for (position, outcome) in asked.wanted.iter().zip(reply.outcomes()) {
            let ty = self.futures.get(*position as usize - 1).map_or(TypeNumber::NONE, |f| f.ty);
            let typed = match &outcome {
                Outcome::Handle { handle, ty } => Typed { known: Known::Ref(*handle), ty: *ty },
                Outcome::Value(value) => Typed { known: Known::from_value(value), ty },
                Outcome::Rows(_) => Typed { known: Known::Rows, ty },
                _ => Typed { known: Known::Failed, ty },
            };
            settled.push((*position, typed, Item::outcome(interface, &outcome)));
        }
        let profile: Option<OwnedProfile> = reply.profile.map(OwnedProfile::from);
        let failures = reply.exceptions().len() + reply.omitted as usize;
        self.explained.ran(reply.counters, failures, profile.clone());
        let profile = profile.map(|profile| {
            let name =
                |call: u32| Some((call, self.futures.get((call as usize).wrapping_sub(1))?.call.clone()));
            let names = profile.entries.iter().filter_map(|entry| name(entry.call)).collect();
            (profile, names)
        });
        let mut answer = Answer { calls: reply.counters.calls, profile, ..Answer::default() };
        let mut objects = Vec::new();
        for (line, (label, typed)) in asked.shown.iter().enumerate() {
            let found = match &typed.known {
                Known::Ref(r) => r.position().and_then(|p| settled.iter().find(|s| s.0 == p)),
                _ => None,
            };
            let (item, now) = match (found, typed.known.arg()) {
                (Some((_, now, item)), _) => (item.clone(), now),
                (None, Arg::Value(value)) => (Item::value(interface, &value), typed),
                (None, Arg::Ref(handle)) if handle.is_handle() => {
                    (Item::outcome(interface, &Outcome::Handle { handle, ty: typed.ty }), typed)
                }
                (None, Arg::Ref(_)) => (Item::outcome(interface, &Outcome::Exception(0)), typed),
            };
            answer.shown.push((label.clone(), item));
            if let Known::Ref(handle) = now.known
                && handle.is_handle()
            {
                objects.push((line, handle, now.ty));
            }
        }
        self.add_exceptions(&mut answer, reply);
        self.settle(&settled);
        // What a table shows has no names.
        for outcome in reply.outcomes() {
            if let Outcome::Rows(rows) = outcome {
                rows.iter().for_each(|cell| self.unname_outcome(&cell));
            }
        }
        if let Some(listing) = &asked.listing {
            let of = |at: u32| asked.wanted.iter().zip(reply.outcomes()).find(|(p, _)| **p == at);
            let of = |at: u32| of(at).map_or(Outcome::Absent, |(_, outcome)| outcome);
            answer.listed = Some(listing.items(interface, &of));
            answer.write(self.json, text);
            return Due::Nothing;
        }
        self.look(answer, &objects, out, text)
    }

    /// Gives the handles of an outcome back at the next flush, those that no name has.
    pub(super) fn unname_outcome(&mut self, outcome: &Outcome<'_>) {
        let (known, ty) = match outcome {
            Outcome::Handle { handle, ty } => (Known::Ref(*handle), *ty),
            Outcome::Value(value @ Value::Compound(_)) => (Known::from_value(value), TypeNumber::NONE),
            _ => return,
        };
        self.unname(&Typed { known, ty });
    }

    /// Adds the exceptions of a reply to an answer.
    pub(super) fn add_exceptions(&self, answer: &mut Answer, reply: &FlushedReply<'_>) {
        for exception in reply.exceptions() {
            let call = self.futures.get((exception.call as usize).wrapping_sub(1)).map(|f| f.call.as_str());
            answer.exceptions.push(self.exception(&exception, call));
        }
        answer.omitted += u64::from(reply.omitted);
    }
}
