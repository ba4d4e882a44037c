//! The server's part of a random script: it answers batches without running them.
//!
//! A reply is plausible: its outcomes have the types of the headings, its exceptions the positions
//! of calls. Some replies are malformed or are no answers.

use bifrost_wire::interface::{Kind, Numbering};
use bifrost_wire::{Command, ErrorNumber, TypeNumber, error};
use serde_json::{Value as Json, json};

use crate::batch::{Made, Procedures, commands, results};
use crate::dice::Dice;
use crate::script::json::{encode_reply, hex};

pub struct Server {
    dice: Dice,
    interface: Numbering,
    procedures: Procedures,
    next_handle: i64,
    /// Of a hundred calls, how many fail.
    failing: usize,
    /// Of a hundred replies, how many are no answers.
    bad: usize,
    /// True if replies have profiles.
    profiled: bool,
}

impl Server {
    pub fn new(mut dice: Dice, interface: Numbering) -> Server {
        let failing = dice.weighted(&[(3, 0), (4, 5), (3, 20), (1, 60)]);
        let bad = dice.weighted(&[(8, 0), (2, 15)]);
        Server { dice, interface, procedures: Vec::new(), next_handle: 1, failing, bad, profiled: false }
    }

    /// Makes the step with the answer to a batch.
    pub fn answer(&mut self, batch: &[u8]) -> Json {
        let (mut made, mut calls, mut wanted) = (Vec::new(), Vec::new(), Vec::new());
        for (command, _) in commands(batch) {
            if let Command::Procedure { result, .. } = command {
                self.procedures.push(result);
            }
            let results = results(&self.interface, &self.procedures, &command);
            if !matches!(command, Command::Procedure { .. } | Command::When { .. } | Command::Others { .. }) {
                calls.extend((!results.is_empty()).then_some(made.len() as u32 + 1));
            }
            made.extend(results);
            match command {
                Command::Flush { wanted: positions, .. } => wanted = positions.positions().collect(),
                Command::Profile { on } => self.profiled = on,
                _ => {}
            }
        }
        if self.dice.percent(self.bad) {
            return self.no_answer(&made, &calls, &wanted);
        }
        json!({"reply": {"flushed": self.flushed(&made, &calls, &wanted)}})
    }

    fn no_answer(&mut self, made: &[Made], calls: &[u32], wanted: &[u32]) -> Json {
        match self.dice.below(9) {
            0 | 1 => json!({"lose": true}),
            2 => json!({"reply": "farewell"}),
            3 => json!({"reply": "welcome"}),
            4 => json!({"reply": "interface"}),
            5 => {
                let session: Vec<_> =
                    error::TABLE.iter().filter(|e| e.scope == error::Scope::Session).collect();
                let number = self.dice.pick(&session).number as u32;
                json!({"reply": {"error": {"number": number, "position": self.dice.below(9), "text": "no more"}}})
            }
            6 => {
                let mut fewer = self.flushed(made, calls, wanted);
                let outcomes = fewer["outcomes"].as_array_mut().expect("a list");
                if outcomes.pop().is_none() {
                    outcomes.push(json!({"nil": null}));
                }
                json!({"reply": {"flushed": fewer}})
            }
            cut_or_changed => {
                let mut bytes = Vec::new();
                let flushed = self.flushed(made, calls, wanted);
                encode_reply(&json!({"flushed": flushed}), &mut bytes);
                match cut_or_changed {
                    7 => bytes.truncate(8 * self.dice.below(bytes.len() / 8)),
                    // Numbers stay such that every language reads them from JSON.
                    _ => {
                        let (word, bit) = (self.dice.below(bytes.len() / 8), self.dice.below(40));
                        bytes[8 * word + bit / 8] ^= 1 << (bit % 8);
                    }
                }
                json!({"reply": {"bytes": hex(&bytes)}})
            }
        }
    }

    fn flushed(&mut self, made: &[Made], calls: &[u32], wanted: &[u32]) -> Json {
        let mut exceptions: Vec<(u32, Json)> = Vec::new();
        let mut end = None;
        for call in calls {
            if self.dice.percent(self.failing) {
                let ends = made.get(*call as usize - 1) == Some(&Made::End);
                let (ended, exception) = self.exception(*call, &exceptions, ends);
                exceptions.push((*call, exception));
                if ended {
                    end = Some(*call);
                    break;
                }
            }
        }
        let mut outcomes = Vec::new();
        for position in wanted {
            let listed = exceptions.iter().position(|(call, _)| call == position);
            outcomes.push(match listed {
                Some(index) => json!({"exception": index}),
                None if end.is_some_and(|end| *position > end) => json!("absent"),
                None if self.failing > 0 && self.dice.percent(1) => json!("absent"),
                None => self.outcome(made.get(*position as usize - 1).unwrap_or(&Made::Nil)),
            });
        }
        let omitted = if self.failing > 0 && self.dice.percent(3) { self.dice.below(3) } else { 0 };
        let exceptions: Vec<Json> = exceptions.into_iter().map(|(_, exception)| exception).collect();
        let mut flushed = json!({"outcomes": outcomes, "exceptions": exceptions, "omitted": omitted});
        if self.profiled && self.dice.percent(90) {
            flushed["profile"] = self.profile(calls);
        }
        flushed
    }

    fn profile(&mut self, calls: &[u32]) -> Json {
        let dice = &mut self.dice;
        let mut cost = |mut json: Json| {
            for name in ["nanoseconds", "calls", "fuel", "fetches", "objects"] {
                json[name] = json!(dice.below(1 << 16));
            }
            json
        };
        let entries = calls.iter().take(8).map(|call| match call % 3 {
            0 => cost(json!({"call": call, "structure": true})),
            _ => cost(json!({"call": call})),
        });
        let entries: Vec<Json> = entries.collect();
        let rest = (calls.len() > 8).then(|| cost(json!({"omitted": calls.len() - 8})));
        let (fetches, runs) = (self.dice.below(9), 1 + self.dice.below(3));
        let mut profile = json!({"nanoseconds": self.dice.below(1 << 20), "fetches": fetches,
            "objects": 3 * fetches, "runs": runs, "entries": entries});
        if let Some(rest) = rest {
            profile["rest"] = rest;
        }
        profile
    }

    /// Makes an exception; true if it ends the batch.
    fn exception(&mut self, call: u32, before: &[(u32, Json)], ends: bool) -> (bool, Json) {
        let iterations: Vec<usize> = match self.dice.percent(15) {
            true => (0..=self.dice.below(2)).map(|_| self.dice.below(100)).collect(),
            false => Vec::new(),
        };
        let kind = if ends { 9 } else { self.dice.below(10) };
        let mut json = match kind {
            0..5 => {
                let count = self.dice.weighted(&[(5, 0), (3, 1), (1, 3)]);
                let values: Vec<Json> = (0..count)
                    .map(|_| match self.dice.percent(30) {
                        true => self.object(TypeNumber(7)),
                        false => self.value(Kind::Int),
                    })
                    .collect();
                let name = *self.dice.pick(&["not_found", "bounds", "failure", "unknown_signal"]);
                let mut signal = json!({"name": name, "values": values});
                if name == "failure" && self.dice.percent(50) {
                    signal["places"] = json!([{"routine": "fetch", "file": "database.theta", "line": 7}]);
                    signal["more_places"] = json!(self.dice.below(3));
                }
                json!({"signal": signal})
            }
            5..8 => {
                let cause = match before {
                    [] => self.dice.below(3) as u32,
                    before => self.dice.pick(before).0,
                };
                let back = self.dice.weighted(&[(6, 0), (1, 1), (1, 2)]);
                json!({"unhandled": {"argument": self.dice.below(3), "back": back, "cause": cause}})
            }
            _ => {
                let numbers = if ends {
                    vec![ErrorNumber::Unseen, ErrorNumber::Conflict, ErrorNumber::NotStorable]
                } else {
                    let refusals = error::TABLE.iter().filter(|e| e.scope != error::Scope::Session);
                    refusals.map(|e| e.number).filter(|e| *e != ErrorNumber::Unseen).collect()
                };
                let number = *self.dice.pick(&numbers);
                let text = format!("handle h{} is not good", self.dice.between(1, self.next_handle));
                json!({"refused": {"number": number as u32, "text": text}})
            }
        };
        json["call"] = json!(call);
        if !iterations.is_empty() {
            json["iterations"] = json!(iterations);
        }
        let number = json["refused"]["number"].as_u64().map(|number| number as u32);
        let ended = number
            .and_then(ErrorNumber::from_number)
            .is_some_and(|number| number.scope() == error::Scope::Batch && number != ErrorNumber::Unseen);
        (ended, json)
    }

    fn outcome(&mut self, made: &Made) -> Json {
        match made {
            Made::Nil | Made::End => json!({"nil": null}),
            Made::Kind(kind) => self.value(*kind),
            Made::Contents => self.compound(1),
            Made::Of(ty) => self.of(*ty),
            Made::Rows(columns) => {
                let rows = self.dice.below(4);
                let tag = |kind: Kind| match kind {
                    Kind::Null => 1,
                    Kind::Bool => 2,
                    Kind::Int => 3,
                    Kind::Real => 4,
                    Kind::Char => 5,
                    Kind::String => 6,
                    Kind::Bytes => 9,
                    kind if kind.is_compound() => 10,
                    _ => 0,
                };
                let kind =
                    |ty: &TypeNumber| self.interface.interface().ty(*ty).map_or(Kind::Null, |t| t.kind);
                let heads: Vec<Json> = columns.iter().map(|ty| json!([tag(kind(ty)), ty.0])).collect();
                let mut cells = Vec::new();
                for _ in 0..rows {
                    cells.extend(columns.iter().map(|ty| self.of(*ty)));
                }
                json!({"rows": {"columns": heads, "cells": cells}})
            }
        }
    }

    fn of(&mut self, ty: TypeNumber) -> Json {
        match self.interface.interface().ty(ty).map_or(Kind::Null, |ty| ty.kind) {
            kind if kind.is_value() => self.value(kind),
            kind if kind.is_compound() => self.compound(1),
            _ => self.object(ty),
        }
    }

    fn object(&mut self, ty: TypeNumber) -> Json {
        // Objects come again.
        let handle = match self.dice.percent(25) {
            true => self.dice.between(1, self.next_handle),
            false => self.next_handle,
        };
        self.next_handle = self.next_handle.max(handle + 1);
        json!({"handle": handle, "type": ty.0})
    }

    fn compound(&mut self, depth: usize) -> Json {
        let count = self.dice.below(4);
        let items: Vec<Json> = (0..count)
            .map(|_| match self.dice.below(if depth < 3 { 5 } else { 4 }) {
                0 => json!({"ref": self.dice.between(1, self.next_handle)}),
                4 => self.compound(depth + 1),
                _ => self.value(Kind::Int),
            })
            .collect();
        self.next_handle += 1;
        json!({"compound": {"type": 12, "items": items}})
    }

    pub fn value(&mut self, kind: Kind) -> Json {
        value(&mut self.dice, kind)
    }
}

/// Makes a value of a kind. Reals are such that every language writes them alike.
pub fn value(dice: &mut Dice, kind: Kind) -> Json {
    match kind {
        Kind::Null => json!({"nil": null}),
        Kind::Bool => json!({"bool": dice.percent(50)}),
        Kind::Int => {
            let number = match dice.below(8) {
                0 => i64::MIN,
                1 => i64::MAX,
                2 => 1 << 53,
                _ => dice.between(-5, 500),
            };
            json!({"int": number.to_string()})
        }
        Kind::Real => json!({"real": format!("{:?}", dice.between(-400, 400) as f64 / 4.0)}),
        Kind::Char => json!({"char": *dice.pick(&["a", "\0", "\u{df}", "\u{20ac}", "\u{1f33f}"])}),
        Kind::Bytes => json!({"bytes": hex(&vec![dice.below(256) as u8; dice.below(12)])}),
        _ => {
            json!({"string": *dice.pick(&["", "eve", "seven b", "eight by", "nine byte", "gr\u{fc}n \u{1f33f}"])})
        }
    }
}
