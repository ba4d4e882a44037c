//! Where code waits (10.4 and 10.12 of the definition): the waits of a finished body, and calls
//! from where nobody may wait.

use bifrost_ir::resumable::loops_without_iterators;
use bifrost_ir::{Callee, Func, FuncKind, requests};

use super::Checker;
use super::body::Body;
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;

/// A call of a method that may turn out to wait.
pub(crate) struct WaitingCall {
    span: Span,
    callee: Callee,
    name: String,
    /// The transaction around it.
    transaction: Option<Span>,
}

impl Checker<'_> {
    /// Reports calls where nobody may wait: of `main`, and in a transaction of methods of the actor
    /// itself. They are looked at when all bodies are there.
    pub(crate) fn check_waiting_calls(&mut self) {
        let calls = std::mem::take(&mut self.waiting_calls);
        if calls.is_empty() {
            return;
        }
        let waiting = requests::waiting(&self.program);
        for WaitingCall { span, callee, name, transaction } in calls {
            let Some(func) = requests::body_of(&self.program, callee).filter(|func| waiting.contains(func))
            else {
                continue;
            };
            let diagnostic = match transaction {
                Some(transaction) => {
                    let line = self.sources.line(transaction.file, transaction.start);
                    let message = format!(
                        "`{name}` waits for actors or has transactions, and the transaction of line {line} may not"
                    );
                    Diagnostic::error(Code::E0404, span, message)
                        .help("call it before or after the transaction")
                }
                None => {
                    let (code, does) = match self.program.funcs[func].body.has_transaction() {
                        true => (Code::E0410, "has transactions"),
                        false => (Code::E0404, "waits for actors"),
                    };
                    let message = format!("`{name}` {does} and cannot be called");
                    let help = "move the common part to a routine of its own";
                    Diagnostic::error(code, span, message).help(help)
                }
            };
            self.report(diagnostic);
        }
    }
}

impl Body<'_, '_> {
    /// Notes a call of `main`, or in a transaction of a method of the actor itself.
    pub fn note_call(&mut self, callee: Callee, name: &str, span: Span) {
        if self.repeats {
            // What a turn does wrong is reported there.
            return;
        }
        let transaction = self.transaction.as_ref().map(|transaction| transaction.span);
        let transaction = transaction.filter(|_| matches!(callee, Callee::Method(_)));
        self.cx.waiting_calls.push(WaitingCall { span, callee, name: name.to_owned(), transaction });
    }

    /// Ends a script or `main`: writes the loops whose bodies wait without iterators, and puts the
    /// waits where replies are needed.
    pub fn place_waits(&mut self, func: &mut Func) {
        if func.kind != FuncKind::Script && !func.body.may_wait() {
            return;
        }
        loops_without_iterators(&mut self.cx.program, func);
        let held = requests::place_waits(&self.cx.program, func);
        self.note_overlaps(func);
        let Some(file) = self.asked_in else { return };
        for site in held {
            let span = Span { file, start: site.0, end: site.0 + 1 };
            let message = "a loop over this iterator cannot wait for an actor in its body";
            let help = "collect the values of the iterator first, or loop over the elements of an array";
            self.report(Diagnostic::error(Code::E0406, span, message).help(help));
        }
    }
}
