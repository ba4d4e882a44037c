//! Makers (section 6 of the definition).
//!
//! An object is made in one step from the values of all its variables. But a maker fills only those
//! of its class, and its `then` part runs on the finished object of a subclass. So a maker becomes
//! two functions. One is a routine that gives the values of all variables down to its class,
//! followed by those locals that the `then` part may use. The other is a method `CLASS.MAKER.then`,
//! which no program can name, that takes these locals.

use std::sync::Arc;

use bifrost_ir::{
    Func, Operand, Param, Routine as IrRoutine, Signature, Stmt as IrStmt, TypeId, Types, Var, verify,
};

use super::body::{Body, Local, Role, Value};
use super::classes::MakerInfo;
use super::handlers::Cover;
use super::wheres::Demand;
use super::{Checker, Env};
use crate::ast::{self, Ident, Init, MakerCall, Stmt, StmtKind};
use crate::diagnostic::{Code, Diagnostic};

/// The last statement of a maker.
struct Make<'a> {
    stmt: &'a Stmt,
    inits: &'a [Init],
    above: Option<&'a MakerCall>,
    then: Option<&'a [Stmt]>,
}

/// The values that the first part of a maker gives to the second.
#[derive(Default)]
struct Handed {
    fields: usize,
    locals: Vec<Local>,
    /// The arguments of the inherited `then` part.
    above: Vec<Value>,
    above_then: Option<String>,
}

impl<'a> Checker<'a> {
    /// Checks a maker with these type arguments of its own: the routine that computes values, and
    /// the method for its `then` part. Does nothing if the class's arguments do not meet its
    /// demands.
    pub(crate) fn check_maker(&mut self, at: usize, maker: &'a ast::Maker, args: &[TypeId]) {
        let Some(info) = self.classes[at].clone() else { return };
        let heading = &maker.heading;
        let env = info.env.with(&heading.parms, args);
        let own_name = &self.program.classes[info.id].name;
        let Some(name) = self.instance_name(&format!("{own_name}.{}", heading.name), args, heading.span)
        else {
            return;
        };
        let parms: Vec<Ident> = self.class_ast(at).parms.iter().chain(&heading.parms).cloned().collect();
        let demands = self.resolve_wheres(&env, &heading.name, &parms, &heading.wheres);
        let of_class = |demand: &&Demand| args.is_empty() || !args.contains(&demand.arg);
        if !demands.iter().filter(of_class).all(|demand| self.is_met(demand)) {
            return;
        }
        self.assume(&demands);
        let demands: Vec<Demand> = self.demands[info.demands].iter().chain(&demands).cloned().collect();
        let env = self.narrowed(&env, &demands);
        let signature = self.resolve_heading(&env, heading);
        if self.resolve_type(&env, &maker.class).is_some_and(|made| made != info.ty) {
            let message = format!("a maker of `{0}` makes `{0}`", self.type_name(info.ty));
            self.report(Diagnostic::error(Code::E0202, maker.class.span, message));
        }
        let make = self.last_make(maker);
        let maker_name = &heading.name.name;
        let mut body =
            Body::new(self, env.clone(), Role::Maker, Some(at), name.clone(), maker_name, signature.clone())
                .written(heading.name.span.file);
        body.parameters(heading.args.iter().map(|arg| &arg.name));
        let Some(make) = make else {
            body.statements(&maker.body);
            let message = format!("`{}` does not end with `make`", heading.name);
            let help = "write `make {x := e, …}` as its last statement";
            return body.report(Diagnostic::error(Code::E0214, maker.end, message).help(help));
        };
        body.statements(&maker.body[..maker.body.len() - 1]);
        let mut handed = Handed::default();
        let mut cover = Cover::Values { then: make.then.is_some() || make.above.is_some(), raised: vec![] };
        body.inside(&make.stmt.handlers, &mut cover, &mut |body| handed = body.values_of(at, &make));

        let field_types = body.cx.program.classes[info.id].fields.iter().map(|field| field.ty);
        let mut results: Vec<TypeId> = field_types.collect();
        let types = handed.locals.iter().map(|l| l.ty).chain(handed.above.iter().map(|v| v.ty));
        let extra: Vec<TypeId> = types.map(|ty| ty.unwrap_or(Types::ANY)).collect();
        results.extend(&extra);
        if results.len() > verify::VALUES_MAX || extra.len() > verify::WORDS_MAX - 2 {
            let what = format!("a maker of more than {} variables", verify::VALUES_MAX);
            body.cx.unsupported(make.stmt.core, &what);
        }
        body.signature.results = results;
        body.b.func.signature = body.signature.clone();
        let values_signature = body.signature.clone();
        let func = body.finish();
        let func = self.program.funcs.push(func);
        let values = self.program.add_routine(IrRoutine {
            name: name.clone(),
            signature: values_signature,
            body: bifrost_ir::Body::Func(func),
            type_args: vec![],
            public: false,
            doc: heading.doc.clone(),
        });
        let mut then = None;
        if make.then.is_some() || handed.above_then.is_some() {
            let then_name = format!("{name}.then");
            let names = handed.locals.iter().map(|l| l.name.to_string());
            let names = names.chain(handed.above.iter().map(|_| String::new()));
            let params = names.zip(&extra).map(|(name, ty)| Param { name, ty: *ty }).collect();
            let signature = Signature { params, signals: signature.signals.clone(), ..Signature::default() };
            let func = self.placeholder();
            self.add_hidden_method(at, &then_name, signature.clone(), func);
            let before = if let Cover::Values { raised, .. } = cover { raised } else { vec![] };
            let cover = Cover::Then(before);
            self.program.funcs[func] =
                self.check_then(env, at, &then_name, maker_name, signature, &handed, &make, cover);
            then = Some(then_name);
        }
        let known = MakerInfo { signature, values, fields: handed.fields, then };
        if let Some(info) = &mut self.classes[at] {
            info.makers.insert((maker_name.clone(), args.to_vec()), known);
        }
    }

    /// Returns the `make` that ends a maker.
    fn last_make(&self, maker: &'a ast::Maker) -> Option<Make<'a>> {
        let stmt = maker.body.last()?;
        let StmtKind::Make { inits, maker: above, then } = &stmt.kind else { return None };
        Some(Make { stmt, inits, above: above.as_ref(), then: then.as_deref() })
    }

    #[allow(clippy::too_many_arguments, reason = "one caller, and each is a part of the maker")]
    fn check_then(
        &mut self,
        env: Env,
        at: usize,
        name: &str,
        maker: &Arc<str>,
        signature: Signature,
        handed: &Handed,
        make: &Make<'a>,
        mut cover: Cover,
    ) -> Func {
        let mut body = Body::new(self, env, Role::Then, Some(at), name.to_owned(), maker, signature)
            .written(make.stmt.core.file);
        let param = |index: usize| Var::from_u32(index as u32 + 1);
        for (index, local) in handed.locals.iter().enumerate() {
            let name = Ident { name: local.name.clone(), span: local.span };
            body.add_local(&name, param(index), local.ty);
        }
        let rest = handed.locals.len()..handed.locals.len() + handed.above.len();
        body.inside(&make.stmt.handlers, &mut cover, &mut |body| {
            if let Some(above) = &handed.above_then {
                let rest = rest.clone().map(|index| Operand::Var(param(index))).collect();
                body.call_hidden(at, above, Operand::Var(Var::from_u32(0)), rest, make.stmt.span.start);
            }
            body.statements(make.then.unwrap_or(&[]));
        });
        body.finish()
    }
}

impl<'a> Body<'_, 'a> {
    /// Returns the first part of a maker, up to the `return` of all values.
    fn values_of(&mut self, at: usize, make: &Make<'a>) -> Handed {
        let made = self.initialise(at, make.inits, make.above, make.stmt.core);
        let mut values = made.fields;
        let mut handed = Handed { fields: values.len(), ..Handed::default() };
        if make.then.is_some() {
            handed.locals = self.locals.iter().filter(|l| self.flow.is_assigned(l.slot)).cloned().collect();
        }
        if let Some((name, taken)) = made.then {
            (handed.above_then, handed.above) = (Some(name), taken);
        }
        values.extend(handed.locals.iter().map(|local| Operand::Var(local.var)));
        values.extend(handed.above.iter().map(|value| value.op));
        if self.flow.reachable {
            self.b.emit(IrStmt::Return(values.into_iter().collect()));
        }
        self.flow.leave();
        handed
    }
}
