//! Equates: names for types and for constants, computed when the program is compiled.

use bifrost_ir::{Const, TypeId, TypeKind, Types};

use super::constant_calls;
use super::types::as_type;
use super::{Checker, Env, Equate};
use crate::ast::{self, Binary, Expr, ExprKind, Unary};
use crate::diagnostic::{Code, Diagnostic};
use crate::resolve::{Def, Entry};

/// The value of a constant.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Constant {
    Nil,
    Bool(bool),
    Int(i64),
    Real(f64),
    Char(char),
    Str(String),
}

/// The number of equates that may be defined by each other in a row.
const EQUATE_DEPTH_MAX: u32 = 64;

/// The longest string constant, so that `a = b || b` cannot double without end.
pub(super) const STRING_BYTES_MAX: usize = 1 << 20;

impl Constant {
    /// Returns its type.
    pub fn ty(&self) -> TypeId {
        match self {
            Constant::Nil => Types::NULL,
            Constant::Bool(_) => Types::BOOL,
            Constant::Int(_) => Types::INT,
            Constant::Real(_) => Types::REAL,
            Constant::Char(_) => Types::CHAR,
            Constant::Str(_) => Types::STRING,
        }
    }
}

impl Checker<'_> {
    /// Looks at every equate, so that wrong ones are reported even if no one uses them. The comment
    /// of one that names a record, struct or oneof is that of the type, which has no definition of
    /// its own.
    pub(crate) fn resolve_equates(&mut self) {
        for at in 0..self.equates.len() {
            let placed = &self.names.equates[at];
            if placed.parms.is_empty() {
                let (public, name) = (placed.public, placed.ast.name.name.to_string());
                if let Equate::Type(ty) = self.equate(&Env::new(placed.inner), at)
                    && public
                {
                    self.program.type_names.push((name, ty));
                    let def = self.program.types.def_mut(ty);
                    if matches!(def.kind, TypeKind::Record(_) | TypeKind::Struct(_) | TypeKind::OneOf(_))
                        && def.doc.is_empty()
                    {
                        def.doc.clone_from(&placed.ast.doc);
                    }
                }
            }
        }
    }

    /// Looks at the equates of a type or class, for the types of its parameters in `env`.
    pub(crate) fn resolve_own_equates(&mut self, env: &Env, equates: &[ast::Equate]) {
        for equate in equates {
            let entry = self.names.lookup(env.scope, &equate.name.name);
            if let Some(Entry { def: Def::Equate(at), .. }) = entry {
                self.equate(env, at);
            }
        }
    }

    /// Returns the meaning of an equate, for code in `env`.
    pub(crate) fn equate(&mut self, env: &Env, at: usize) -> Equate {
        let key = self.equate_key(env, at);
        match self.known_equate(at, &key) {
            Equate::Untouched => {}
            Equate::Open => {
                let name = &self.names.equates[at].ast.name;
                let diagnostic =
                    Diagnostic::error(Code::E0208, name.span, format!("`{name}` is defined by itself"));
                self.report(diagnostic);
                self.set_equate(at, key, Equate::Wrong);
                return Equate::Wrong;
            }
            known => return known,
        }
        if self.equate_depth >= EQUATE_DEPTH_MAX {
            let name = &self.names.equates[at].ast.name;
            let message = format!("more than {EQUATE_DEPTH_MAX} equates lead to `{name}`");
            self.report(Diagnostic::error(Code::E0109, name.span, message));
            self.set_equate(at, key, Equate::Wrong);
            return Equate::Wrong;
        }
        self.set_equate(at, key.clone(), Equate::Open);
        self.equate_depth += 1;
        let placed = &self.names.equates[at];
        let value = &placed.ast.value;
        let env = Env::new(placed.inner).with(placed.parms, &key);
        let found = if self.means_type(&env, value) {
            let ty = as_type(value).and_then(|ty| self.resolve_type(&env, &ty));
            ty.map_or(Equate::Wrong, Equate::Type)
        } else {
            self.constant(&env, value).map_or(Equate::Wrong, Equate::Constant)
        };
        self.equate_depth -= 1;
        if matches!(self.known_equate(at, &key), Equate::Open) {
            self.set_equate(at, key.clone(), found);
        }
        self.known_equate(at, &key)
    }

    /// Returns the types in `env` of the parameters around an equate.
    fn equate_key(&self, env: &Env, at: usize) -> Vec<TypeId> {
        self.names.equates[at].parms.iter().filter_map(|parm| env.parm(&parm.name)).collect()
    }

    fn known_equate(&self, at: usize, key: &[TypeId]) -> Equate {
        if key.is_empty() {
            return self.equates[at].clone();
        }
        self.equate_instances.get(&(at, key.to_vec())).cloned().unwrap_or(Equate::Untouched)
    }

    fn set_equate(&mut self, at: usize, key: Vec<TypeId>, equate: Equate) {
        if key.is_empty() {
            self.equates[at] = equate;
        } else {
            self.equate_instances.insert((at, key), equate);
        }
    }

    /// Returns true if an equate is known to be a type.
    pub(crate) fn is_type_equate(&self, env: &Env, at: usize) -> bool {
        matches!(self.known_equate(at, &self.equate_key(env, at)), Equate::Type(_))
    }

    /// Returns true if the right side of an equate is a type; follows other equates.
    fn means_type(&mut self, env: &Env, value: &Expr) -> bool {
        if let ExprKind::Name(name) = &value.kind
            && env.parm(&name.name).is_none()
            && let Some(Def::Equate(at)) = self.names.lookup(env.scope, &name.name).map(|entry| entry.def)
        {
            return matches!(self.equate(env, at), Equate::Type(_));
        }
        self.names_type(env, value)
    }

    fn not_constant(&mut self, expr: &Expr) -> Option<Constant> {
        let help = "a constant is made of literals, other constants and operators";
        self.report(Diagnostic::error(Code::E0202, expr.span, "this is not a constant").help(help));
        None
    }

    /// Returns the value of a constant expression.
    fn constant(&mut self, env: &Env, expr: &Expr) -> Option<Constant> {
        match &expr.kind {
            ExprKind::Int(v) => Some(Constant::Int(*v)),
            ExprKind::Real(v) => Some(Constant::Real(*v)),
            ExprKind::Char(v) => Some(Constant::Char(*v)),
            ExprKind::Str(v) => Some(Constant::Str(v.to_string())),
            ExprKind::Bool(v) => Some(Constant::Bool(*v)),
            ExprKind::Nil => Some(Constant::Nil),
            ExprKind::Paren(inner) => self.constant(env, inner),
            ExprKind::Name(name) => match self.names.lookup(env.scope, &name.name).map(|entry| entry.def) {
                Some(Def::Equate(at)) => match self.equate(env, at) {
                    Equate::Constant(value) => Some(value),
                    Equate::Type(_) => self.not_constant(expr),
                    _ => None,
                },
                Some(_) => self.not_constant(expr),
                None => {
                    let message = format!("unknown name `{name}`");
                    self.report(Diagnostic::error(Code::E0208, name.span, message));
                    None
                }
            },
            ExprKind::Unary { op, operand } => {
                let value = self.constant(env, operand)?;
                let result = match (op, value) {
                    (Unary::Negate, Constant::Int(v)) => v.checked_neg().map(Constant::Int),
                    (Unary::Negate, Constant::Real(v)) => Some(Constant::Real(-v)),
                    (Unary::Not, Constant::Bool(v)) => Some(Constant::Bool(!v)),
                    (Unary::Not, Constant::Int(v)) => Some(Constant::Int(!v)),
                    _ => None,
                };
                result.or_else(|| self.not_constant(expr))
            }
            ExprKind::Binary { op, left, right, .. } => {
                let left = self.constant(env, left);
                let right = self.constant(env, right);
                combine(*op, left?, right?).or_else(|| self.not_constant(expr))
            }
            ExprKind::Call { callee, args } if args.rest.is_none() => {
                let ExprKind::Select { object, name } = &callee.kind else { return self.not_constant(expr) };
                let receiver = self.constant(env, object)?;
                let args: Option<Vec<Constant>> =
                    args.plain.iter().map(|arg| self.constant(env, arg)).collect();
                constant_calls::call(receiver, &name.name, &args?).or_else(|| self.not_constant(expr))
            }
            ExprKind::Error => None,
            _ => self.not_constant(expr),
        }
    }

    /// Returns the constant as an operand of the IR.
    pub(crate) fn constant_operand(&mut self, constant: &Constant) -> Const {
        match constant {
            Constant::Nil => Const::Nil,
            Constant::Bool(v) => Const::Bool(*v),
            Constant::Int(v) => Const::Int(*v),
            Constant::Real(v) => Const::Real(v.to_bits()),
            Constant::Char(v) => Const::Char(*v),
            Constant::Str(v) => Const::Str(self.program.literal(v)),
        }
    }
}

/// Returns the result of an operator; `None` where it would signal or does not exist.
pub(super) fn combine(op: Binary, left: Constant, right: Constant) -> Option<Constant> {
    use Constant::{Bool, Char, Int, Real, Str};
    let ordering = match (&left, &right) {
        (Int(a), Int(b)) => Some(a.cmp(b)),
        (Char(a), Char(b)) => Some(a.cmp(b)),
        (Str(a), Str(b)) => Some(a.cmp(b)),
        _ => None,
    };
    if let Some(ordering) = ordering {
        match op {
            Binary::Eq => return Some(Bool(ordering.is_eq())),
            Binary::Ne => return Some(Bool(ordering.is_ne())),
            Binary::Lt => return Some(Bool(ordering.is_lt())),
            Binary::Le => return Some(Bool(ordering.is_le())),
            Binary::Gt => return Some(Bool(ordering.is_gt())),
            Binary::Ge => return Some(Bool(ordering.is_ge())),
            _ => {}
        }
    }
    match (left, right) {
        (Int(a), Int(b)) => combine_ints(op, a, b).map(Int),
        (Real(a), Real(b)) => Some(match op {
            Binary::Add => Real(a + b),
            Binary::Sub => Real(a - b),
            Binary::Mul => Real(a * b),
            Binary::Div => Real(a / b),
            Binary::Power => Real(a.powf(b)),
            Binary::Eq => Bool(a == b),
            Binary::Ne => Bool(a != b),
            Binary::Lt => Bool(a < b),
            Binary::Le => Bool(a <= b),
            Binary::Gt => Bool(a > b),
            Binary::Ge => Bool(a >= b),
            _ => return None,
        }),
        (Bool(a), Bool(b)) => Some(Bool(match op {
            Binary::And => a & b,
            Binary::Or => a | b,
            Binary::Eq => a == b,
            Binary::Ne => a != b,
            _ => return None,
        })),
        (Constant::Nil, Constant::Nil) => match op {
            Binary::Eq => Some(Bool(true)),
            Binary::Ne => Some(Bool(false)),
            _ => None,
        },
        (Str(a), Str(b)) if op == Binary::Concat && a.len() + b.len() <= STRING_BYTES_MAX => {
            Some(Str(a + &b))
        }
        _ => None,
    }
}

fn combine_ints(op: Binary, a: i64, b: i64) -> Option<i64> {
    match op {
        Binary::Add => a.checked_add(b),
        Binary::Sub => a.checked_sub(b),
        Binary::Mul => a.checked_mul(b),
        // The remainder is never negative: x = q * y + r, 0 <= r < |y|.
        Binary::Div => a.checked_div_euclid(b),
        Binary::Mod if b == -1 => Some(0),
        Binary::Mod => a.checked_rem_euclid(b),
        // These never overflow, however large the exponent.
        Binary::Power if b >= 0 && a == 0 => Some(i64::from(b == 0)),
        Binary::Power if b >= 0 && a == 1 => Some(1),
        Binary::Power if b >= 0 && a == -1 => Some(if b % 2 == 0 { 1 } else { -1 }),
        Binary::Power => a.checked_pow(u32::try_from(b).ok()?),
        Binary::And => Some(a & b),
        Binary::Or => Some(a | b),
        Binary::Shl if (0..64).contains(&b) => Some(a << b),
        Binary::Shr if (0..64).contains(&b) => Some(a >> b),
        _ => None,
    }
}
