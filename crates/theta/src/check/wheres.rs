//! Where clauses: the methods that a type argument must have (section 5 of the definition).
//!
//! A clause is resolved for each instantiation, into [`Demand`]s on its arguments, and holds if
//! each argument has methods that conform. For the definition itself the arguments are opaque
//! types, which have just the methods that the clause asks for.

use std::sync::Arc;

use bifrost_ir::{Param, Signature, TypeId, TypeKind, builtin};

use super::items::{empty_type, method};
use super::{Checker, Env, Voice};
use crate::ast::{Ident, Where, WhereMethod};
use crate::diagnostic::{Code, Diagnostic};
use crate::resolve::{is_builtin_type, similar};
use crate::source::Span;

/// A method that a type argument must have.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    /// The definition that asks, for messages.
    pub owner: Arc<str>,
    /// The parameter.
    pub parm: Arc<str>,
    /// Its place among the parameters of the definition.
    pub place: Option<usize>,
    /// The type that it stands for.
    pub arg: TypeId,
    /// The method.
    pub name: String,
    /// The heading that the method must conform to.
    pub signature: Signature,
    /// True if the runtime calls it, which asks no actor.
    pub called: bool,
}

/// An instantiation that was asked for.
#[derive(Debug)]
pub(crate) struct Request {
    /// The demands, by position in [`Checker::demands`].
    pub demands: usize,
    /// The places where the arguments are written; one place stands for all.
    pub spans: Vec<Span>,
}

/// The subject of an instantiation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Needs {
    Type(usize),
    Class(usize),
    /// Something without where clause.
    Nothing,
    /// Demands by position in [`Checker::demands`].
    Other(usize),
}

impl<'a> Checker<'a> {
    /// Makes new types that stand for the parameters of a definition.
    pub(crate) fn opaque_types(&mut self, parms: &[Ident]) -> Vec<TypeId> {
        self.check_distinct(parms);
        let mut types = vec![];
        for parm in parms {
            if is_builtin_type(&parm.name) {
                let message = format!("`{parm}` hides the type of that name");
                self.report(Diagnostic::error(Code::E0211, parm.span, message).help("choose another name"));
            }
            let ty = self.program.types.add(empty_type(&parm.name, TypeKind::Object, false, false, ""));
            self.opaque.insert(ty);
            types.push(ty);
        }
        types
    }

    /// Gives opaque types the methods that `demands` ask for.
    pub(crate) fn assume(&mut self, demands: &[Demand]) {
        for demand in demands {
            if self.opaque.contains(&demand.arg)
                && self.program.types.find_method(demand.arg, &demand.name).is_none()
            {
                let added = method(&demand.name, demand.signature.clone(), vec![], "");
                self.program.types.def_mut(demand.arg).methods.push(added);
                self.unsettle(demand.arg);
            }
        }
    }

    /// Returns the demands of a where clause in one instantiation of `owner`, whose own parameters
    /// are `parms`.
    pub(crate) fn resolve_wheres(
        &mut self,
        env: &Env,
        owner: &Ident,
        parms: &[Ident],
        wheres: &[Where],
    ) -> Vec<Demand> {
        let mut demands = vec![];
        for clause in wheres {
            self.check_distinct(clause.methods.iter().map(|method| &method.name));
            let Some(arg) = env.parm(&clause.parm.name) else {
                if !clause.parm.name.is_empty() {
                    let diagnostic = unknown_parameter(env, owner, &clause.parm);
                    self.report(diagnostic);
                }
                continue;
            };
            for wanted in &clause.methods {
                let signature = self.resolve_where_method(env, wanted);
                demands.push(Demand {
                    owner: owner.name.clone(),
                    parm: clause.parm.name.clone(),
                    place: parms.iter().position(|parm| parm.name == clause.parm.name),
                    arg,
                    name: wanted.name.name.to_string(),
                    signature,
                    called: false,
                });
            }
        }
        demands
    }

    fn resolve_where_method(&mut self, env: &Env, wanted: &WhereMethod) -> Signature {
        let params = wanted.args.iter().map(|ty| {
            let ty = self.resolve_type_or_wrong(env, ty);
            Param { name: String::new(), ty }
        });
        let params = params.collect();
        let outcome: Vec<TypeId> =
            wanted.result.types.iter().map(|ty| self.resolve_type_or_wrong(env, ty)).collect();
        let signals = self.resolve_signals(env, &wanted.signals);
        let (results, yields) = if wanted.result.yields { (vec![], Some(outcome)) } else { (outcome, None) };
        Signature { params, results, yields, signals }
    }

    /// Asks for the demands of a built-in type or routine on its arguments, written at `spans`:
    /// places of parameters, and names of [`builtin::element_signature`].
    pub(crate) fn ask_builtin(
        &mut self,
        owner: &str,
        parms: &[&str],
        needs: &[(usize, &str)],
        args: &[TypeId],
        spans: Vec<Span>,
    ) {
        if needs.is_empty() {
            return self.ask(Needs::Nothing, spans);
        }
        let demands = needs.iter().filter_map(|(place, name)| {
            let arg = args[*place];
            let signature = builtin::element_signature(arg, name)?;
            let (owner, parm, name) = (owner.into(), parms[*place].into(), (*name).to_owned());
            Some(Demand { owner, parm, place: Some(*place), arg, name, signature, called: true })
        });
        let demands = demands.collect();
        self.demands.push(demands);
        self.ask(Needs::Other(self.demands.len() - 1), spans);
    }

    /// Returns true if a type has a method of that name that conforms to `wanted`. The types must
    /// be settled.
    pub(crate) fn satisfies(&self, arg: TypeId, name: &str, wanted: &Signature) -> bool {
        let Some(found) = self.program.types.find_method(arg, name) else { return false };
        self.misfit(&self.program.types.method(found).signature, wanted, name, Self::below).is_none()
    }

    /// Returns true if an argument meets a demand.
    pub(crate) fn is_met(&self, demand: &Demand) -> bool {
        if self.known(demand.arg).is_none() {
            return true;
        }
        match demand.called && self.program.types.def(demand.arg).actor {
            // Actors are compared by their identity, whatever messages they take.
            true => matches!(&*demand.name, "equal" | "hash"),
            false => self.satisfies(demand.arg, &demand.name, &demand.signature),
        }
    }

    /// Returns the same environment for code that runs with the methods of `demands`, as far as the
    /// arguments have more.
    pub(crate) fn narrowed(&self, env: &Env, demands: &[Demand]) -> Env {
        let less = |demand: &&Demand| {
            self.program.types.find_method(demand.arg, &demand.name).is_some_and(|found| {
                let found = &self.program.types.method(found).signature;
                found.results != demand.signature.results || found.yields != demand.signature.yields
            })
        };
        let mut less = demands.iter().filter(less).peekable();
        if self.voice != Voice::Instance || less.peek().is_none() {
            return env.clone();
        }
        let narrowed = env.narrowed.iter().chain(less).cloned().collect();
        Env { narrowed, ..env.clone() }
    }

    /// Reports E0206 for each use of an instantiation whose arguments lack something.
    pub(crate) fn check_requests(&mut self) {
        for request in std::mem::take(&mut self.requests) {
            let missing: Vec<Demand> =
                self.demands[request.demands].iter().filter(|demand| !self.is_met(demand)).cloned().collect();
            for demand in missing {
                let first = request.spans.first().copied();
                let span = demand.place.and_then(|at| request.spans.get(at).copied()).or(first);
                if let Some(span) = span {
                    let diagnostic = self.missing(&demand, span);
                    self.report(diagnostic);
                }
            }
        }
    }

    /// Returns the error E0206.
    pub(crate) fn missing(&self, demand: &Demand, span: Span) -> Diagnostic {
        let types = &self.program.types;
        let (arg, parm, owner) = (types.name(demand.arg), &demand.parm, &demand.owner);
        let heading = self.demanded_heading(&demand.name, &demand.signature);
        let message = format!("`{arg}` has no `{heading}`, which `{owner}` requires of `{parm}`");
        let other = if &**parm == "K" { "another key type" } else { "another type" };
        let help = if self.opaque.contains(&demand.arg) {
            format!("add `where {arg} has {heading}`")
        } else if demand.called && types.def(demand.arg).actor {
            format!("methods of an actor are messages, which cannot be sent here; use {other}")
        } else if let Some(found) = types.find_method(demand.arg, &demand.name) {
            let found = types.method(found);
            format!("the heading there is `{}`", types.heading(&found.name, &found.signature))
        } else if types.kind(demand.arg) == TypeKind::Object {
            format!("declare it in `{arg}`, or use {other}")
        } else {
            format!("use {other}")
        };
        Diagnostic::error(Code::E0206, span, message).help(help)
    }

    /// Returns a heading as a where clause writes it: without names of arguments.
    fn demanded_heading(&self, name: &str, signature: &Signature) -> String {
        let types = &self.program.types;
        let params: Vec<&str> = signature.params.iter().map(|param| types.name(param.ty)).collect();
        let rest = types.heading("", &Signature { params: vec![], ..signature.clone() });
        format!("{name} ({}){}", params.join(", "), rest.trim_start_matches(" ()"))
    }
}

fn unknown_parameter(env: &Env, owner: &Ident, name: &Ident) -> Diagnostic {
    let message = format!("`{name}` is not a type parameter of `{owner}`");
    let mut diagnostic = Diagnostic::error(Code::E0208, name.span, message);
    let close = similar(&name.name, env.parms.iter().map(|(parm, _)| &**parm));
    diagnostic.help = close.map(|close| format!("a similar name exists: `{close}`"));
    diagnostic
}
