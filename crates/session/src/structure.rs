//! Control structures: collected up to their end marker, checked whole, then run.
//!
//! Read `Session::scan_on` first. A structure is read twice at most.
//!
//! 1. The first reading ([`Scan`]) follows the bytes as they arrive. It matches the markers, and
//!    looks up the things that the structure uses from outside (handles, futures made before,
//!    values). It also writes down the structure's *content*.
//! 2. If the engine has this content already, the prepared structure is run. So the same structure
//!    over other objects of the same classes, or with other numbers, is not built again.
//! 3. Otherwise the second reading ([`crate::build`]) makes the IR, which the verifier checks
//!    before anything runs.
//!
//! The session owns the scan between two pieces of a batch. The engine owns prepared structures,
//! and may share them with other sessions.
//!
//! Sources: 000 sections 6.3 and 6.4; the caching of prepared structures is ours.

use std::sync::Arc;

use bifrost_actors::Base;
use bifrost_engine::Batch;
use bifrost_interp::{BatchEnd, Prepared, Trace};
use bifrost_ir::verify::{VerifyError, VerifyErrorKind};
use bifrost_ir::{Block, Callee, Signature, Site, Stmt};
use bifrost_runtime::Cx;
use bifrost_runtime::abi::Word;
use bifrost_wire::profile::Subject;
use bifrost_wire::{Decoded, ErrorNumber, Limit, decode};
use smallvec::SmallVec;

use crate::build;
use crate::causes::Cause;
use crate::failures::{Failure, FailureKind, Place};
use crate::futures::Future;
use crate::rules::{Inside, rule};
use crate::scan::Scan;
use crate::session::Session;
use crate::tables::Tables;

impl Session {
    /// Goes on with the open structure. Returns the number of its bytes if it is over (run or
    /// refused), `None` if it needs more.
    #[inline(never)]
    pub(crate) fn scan_on(&mut self, cx: &mut Cx, bytes: &[u8]) -> Option<usize> {
        let mut scan = self.scan.take()?;
        let frame = self.limits.size(Limit::FrameBytes);
        loop {
            match decode(&bytes[scan.offset..], frame) {
                Ok(Decoded::Command(command, used)) => {
                    // The first command was counted when the structure was begun.
                    if scan.offset > 0 && !self.count(used) {
                        return Some(scan.offset);
                    }
                    if self.batch.dead {
                        // A limit was passed: the collected commands are not run, and the rest is
                        // read and dropped.
                        let at = scan.offset;
                        self.dropped(cx, &scan);
                        return Some(at);
                    }
                    let rule = rule(&command);
                    if rule.inside == Inside::EndsBatch {
                        let at = scan.offset;
                        self.unfinished(cx, &scan);
                        return Some(at);
                    }
                    scan.offset += used;
                    self.scan_command(cx, &mut scan, &command, rule);
                    let futures = u64::from(scan.base) + u64::from(scan.numbers);
                    if futures > self.limits.get(Limit::Futures) {
                        // Found before the structure runs, not after.
                        let at = scan.offset;
                        self.exceed(ErrorNumber::TooManyFutures, Limit::Futures);
                        self.dropped(cx, &scan);
                        return Some(at);
                    }
                    if scan.is_whole() {
                        let used = scan.offset;
                        self.structure(cx, scan, &bytes[..used]);
                        return Some(used);
                    }
                }
                Ok(Decoded::NeedMore(_)) => {
                    self.scan = Some(scan);
                    return None;
                }
                Err(error) => {
                    self.fail(error.number, &error.to_string());
                    return Some(scan.offset);
                }
            }
        }
    }

    /// Refuses a structure in which the batch ended.
    pub(crate) fn unfinished(&mut self, cx: &mut Cx, scan: &Scan) {
        let text = format!("the batch ended inside {}: its end marker is missing", scan.place());
        self.fail_call(scan.numbers, FailureKind::refused(ErrorNumber::MissingEnd, text));
        self.dropped(cx, scan);
    }

    /// Does the rest of a structure that is not run: its procedures have their numbers, its handles
    /// are given back.
    fn dropped(&mut self, cx: &mut Cx, scan: &Scan) {
        self.undefined(scan.definitions);
        for handle in &scan.frees {
            self.free(cx, *handle);
        }
    }

    /// Runs a structure that is whole, or refuses it.
    fn structure(&mut self, cx: &mut Cx, scan: Box<Scan>, bytes: &[u8]) {
        let mark = self.mark(cx);
        let failed = match self.prepared(&scan, bytes) {
            Ok(batch) if scan.procedure => {
                self.define(cx, &scan, batch);
                None
            }
            Ok(batch) => self.run_structure(cx, &scan, &batch),
            Err(Failure { place, kind }) => {
                self.undefined(scan.definitions);
                Some(self.fail_at(place, kind))
            }
        };
        self.make_all(scan.numbers, failed.map_or(Future::Inner, Future::Failed));
        for handle in scan.frees {
            self.free(cx, handle);
        }
        self.measured(cx, mark, Subject::Structure);
    }

    /// Returns the structure ready to run: found by its content, or built and checked now.
    fn prepared(&mut self, scan: &Scan, bytes: &[u8]) -> Result<Arc<Batch>, Failure> {
        if let Some(fault) = &scan.fault {
            return Err(fault.clone());
        }
        if let Some(batch) = self.tables.engine().find_batch(&scan.content) {
            self.counters.prepared_hits += 1;
            return Ok(batch);
        }
        let func =
            build::func((self.tables, &self.policy), scan, bytes, self.limits.size(Limit::FrameBytes))?;
        let procedures: Vec<Arc<Prepared>> =
            scan.procedures.iter().map(|p| p.batch.prepared.clone()).collect();
        self.tables
            .engine()
            .add_batch(&scan.content, func, &procedures)
            .map_err(|errors| refusal(self.tables, scan.base, &errors))
    }

    fn run_structure(&mut self, cx: &mut Cx, scan: &Scan, batch: &Batch) -> Option<u32> {
        self.counters.structures += 1;
        let words: SmallVec<[Word; 16]> = scan.params.iter().map(|(word, _)| *word).collect();
        let calls = cx.calls;
        bifrost_actors::number_from(cx, Base::After(scan.base));
        // SAFETY: the words have the types that the content names, and the batch was built for that
        // content.
        let end = unsafe { self.tables.engine().run(cx, batch, &words) };
        self.batch.calls += cx.calls.saturating_sub(calls);
        match end {
            BatchEnd::Done(_) => None,
            BatchEnd::Signalled(trace) => {
                let none = Signature::default();
                let heading = find_site(self.tables, batch, &batch.func.body, trace.site).unwrap_or(&none);
                Some(self.fail_at(place(scan.base, &trace), Cause::Signalled(cx, heading)))
            }
            BatchEnd::Killed(trace) => Some(self.fail_at(place(scan.base, &trace), Cause::Killed(cx))),
        }
    }
}

/// Returns the place at which a structure failed, in the batch's numbering. Sites are counted from
/// the structure's start, because the same prepared structure runs at other places too.
fn place(base: u32, trace: &Trace) -> Place {
    let iterations: SmallVec<[u32; 4]> =
        trace.iterations.iter().map(|i| u32::try_from(*i).unwrap_or(u32::MAX)).collect();
    Place { call: base + trace.site.0.max(1), iterations }
}

/// Finds the heading of the call at a site.
fn find_site<'a>(
    tables: &'a Tables,
    batch: &'a Batch,
    block: &'a Block,
    site: Site,
) -> Option<&'a Signature> {
    let find = |b: &'a Block| find_site(tables, batch, b, site);
    block.0.iter().find_map(|stmt| match stmt {
        Stmt::Request { method, site: s, .. } if *s == site => {
            tables.engine().program().signature(Callee::Method(*method), &batch.func)
        }
        Stmt::Call { callee, site: s, .. } if *s == site => {
            tables.engine().program().signature(*callee, &batch.func)
        }
        Stmt::ForEach { callee, site: s, .. } if *s == site => {
            tables.engine().program().signature(*callee, &batch.func)
        }
        Stmt::If { then, otherwise, .. } | Stmt::TypeIf { then, otherwise, .. } => {
            find(then).or_else(|| find(otherwise))
        }
        Stmt::While { cond, body, .. } => find(cond).or_else(|| find(body)),
        Stmt::ForEach { body, .. } => find(body),
        Stmt::Except { body, arms } => find(body).or_else(|| arms.iter().find_map(|a| find(&a.body))),
        _ => None,
    })
}

/// Turns the errors of the verifier into a refusal for the client.
fn refusal(tables: &Tables, base: u32, errors: &[VerifyError]) -> Failure {
    let Some(error) = errors.first() else {
        return Failure::of(
            base + 1,
            FailureKind::refused(ErrorNumber::Internal, "refused without a reason"),
        );
    };
    let number = match &error.kind {
        VerifyErrorKind::WrongType { .. }
        | VerifyErrorKind::ArmType { .. }
        | VerifyErrorKind::OthersTakesName
        | VerifyErrorKind::NotASequence { .. } => ErrorNumber::WrongType,
        VerifyErrorKind::WrongCount { .. }
        | VerifyErrorKind::ArmCount { .. }
        | VerifyErrorKind::ReturnMissing
        | VerifyErrorKind::TooManyWords { .. }
        | VerifyErrorKind::TooManyValues { .. }
        | VerifyErrorKind::TooManyYields { .. } => ErrorNumber::WrongCount,
        VerifyErrorKind::UnassignedVar { .. } => ErrorNumber::BadFuture,
        VerifyErrorKind::IteratorInCall { .. } => ErrorNumber::NotAProcedure,
        VerifyErrorKind::NotAnIterator { .. } => ErrorNumber::NotAnIterator,
        VerifyErrorKind::BreakOutsideLoop | VerifyErrorKind::BreakInCondition => ErrorNumber::MarkerMismatch,
        VerifyErrorKind::TooDeep => ErrorNumber::TooDeep,
        VerifyErrorKind::NotPublic { .. } => ErrorNumber::NoSuchMethod,
        _ => ErrorNumber::Internal,
    };
    let text = match &error.kind {
        // Variables are named by the futures that they are; the numbers behind them are ours.
        VerifyErrorKind::UnassignedVar { place, name, .. } => {
            format!("{place}: the call `{name}` may not have run when its result is used here")
        }
        // Of a class that clients cannot see they are told the type.
        VerifyErrorKind::WrongType { place, expected, found } => {
            let (expected, found) = (tables.type_name(expected.id), tables.type_name(found.id));
            format!("{place}: expected `{expected}`, found `{found}`")
        }
        kind => kind.to_string(),
    };
    Failure::of(base + error.site.0.max(1), FailureKind::refused(number, text))
}
