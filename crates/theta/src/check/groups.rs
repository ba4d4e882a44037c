//! Groups of actors (10.2 and 10.3 of the definition): their creation, and messages to all members.

use bifrost_ir::{
    Arm, ArmMatch, Block, Callee, ClassId, Const, Destination, Operand, Signature, Site, Stmt as IrStmt,
    TypeId, TypeKind, Types, builtin,
};
use smallvec::smallvec;

use super::body::{Body, Value};
use super::calls::Target;
use crate::ast::Expr;
use crate::source::Span;

impl<'a> Body<'_, 'a> {
    /// Returns the type of a message's receiver if it is a group.
    pub fn group_of(&self, target: &Target) -> Option<TypeId> {
        let Some(Operand::Var(var)) = target.receiver else { return None };
        let ty = self.b.func.vars[var].ty;
        matches!(self.cx.program.types.kind(ty), TypeKind::Group(_)).then_some(ty)
    }

    /// Returns the operands of one of several messages or creations: each gets a copy of its own of
    /// values that can change.
    pub fn owned(&mut self, signature: &Signature, operands: &[Operand], span: Span) -> Vec<Operand> {
        let mut owned = vec![];
        for (operand, param) in operands.iter().zip(&signature.params) {
            owned.push(match self.cx.is_sendable(param.ty) {
                true => *operand,
                false => self.clone_of(Value { op: *operand, ty: Some(param.ty) }, span).op,
            });
        }
        owned
    }

    /// Checks `A.new(e) times k`: a loop that makes the members, the first on node 0 and each on
    /// the node after, and then a group of them.
    pub fn new_group(
        &mut self,
        expr: &'a Expr,
        (class, ty): (ClassId, TypeId),
        signature: &Signature,
        operands: &[Operand],
        count: Operand,
    ) -> Value {
        let at = expr.span.start;
        let [array, group] =
            [TypeKind::Array, TypeKind::Group].map(|kind| self.cx.program.types.instance(kind(ty)));
        let count = self.call_builtin(&builtin::GROUP_COUNT, &[], vec![count], Types::INT, at);
        let nodes = self.call_named("nodes", &[], vec![], Types::INT, at);
        let members = self.call_named("array_new", &[ty], vec![], array, at);
        let [made, node] = [0, 0].map(|value| {
            let var = self.b.temp(Some(Types::INT));
            self.b.assign(var, Operand::Const(Const::Int(value)));
            var
        });
        self.b.open();
        let more = self.call_method(Types::INT, "lt", vec![made.into(), count], at);
        let cond = self.b.close();
        self.b.open();
        self.b.open();
        let next = self.call_method(Types::INT, "mod", vec![made.into(), nodes], at);
        self.b.assign(node, next);
        let next = self.call_method(Types::INT, "add", vec![made.into(), Operand::Const(Const::Int(1))], at);
        self.b.assign(made, next);
        let body = self.b.close();
        // Neither happens; but a handler of the program may take exceptions of these names with
        // other values.
        let takes = ArmMatch::Named(
            ["overflow", "zero"].map(|name| self.cx.program.types.signal(name)).into_iter().collect(),
        );
        let arm = Arm { takes, vars: smallvec![], body: Block(vec![IrStmt::Break]) };
        self.b.emit(IrStmt::Except { body, arms: vec![arm] });
        let member = self.b.temp(Some(ty));
        let args = self.owned(signature, operands, expr.span).into_iter().collect();
        let place = Destination::On(node.into());
        self.b.emit(IrStmt::Create { dst: member, class, creator: 0, args, place, site: Site(at) });
        self.call_method(array, "append", vec![members, member.into()], at);
        let body = self.b.close();
        self.b.emit(IrStmt::While { cond, test: more, body });
        let members = self.call_method(array, "to_sequence", vec![members], at);
        let op = self.call_named("group_of", &[ty], vec![members], group, at);
        Value { op, ty: Some(group) }
    }

    /// Returns the result of a built-in routine.
    fn call_named(
        &mut self,
        name: &str,
        types: &[TypeId],
        args: Vec<Operand>,
        result: TypeId,
        site: u32,
    ) -> Operand {
        let row = builtin::find_routine(name).expect("a row of the table");
        self.call_builtin(row, types, args, result, site)
    }

    fn call_builtin(
        &mut self,
        row: &'static builtin::BuiltinRoutine,
        types: &[TypeId],
        args: Vec<Operand>,
        result: TypeId,
        site: u32,
    ) -> Operand {
        let id = builtin::instantiate(&mut self.cx.program, row, types);
        let dst = self.b.temp(Some(result));
        self.b.call(Callee::Routine(id), args, [dst], site);
        dst.into()
    }
}
