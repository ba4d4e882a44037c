//! Operations on basic words. `bifrost_interp::apply` defines their results; the filetests hold the
//! two together.

use bifrost_ir::builtin::Op;
use bifrost_ir::{Const, Operand};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{BlockArg, InstBuilder, Value, types};

use super::Lower;
use super::known::Operation;

impl Lower<'_, '_, '_> {
    pub(super) fn op(&mut self, op: Op, args: &[Operand]) -> Value {
        let x = self.operand(args[0]);
        let y = match args.get(1) {
            Some(operand) => self.operand(*operand),
            None => x,
        };
        let signals = *self.unit.image.signals();
        match op {
            Op::BoolNot => self.int_test(IntCC::Equal, x, 0),
            Op::BoolAnd | Op::IntAnd => self.b.ins().band(x, y),
            Op::BoolOr | Op::IntOr => self.b.ins().bor(x, y),
            Op::BoolXor | Op::IntXor => self.b.ins().bxor(x, y),
            Op::IntNot => self.b.ins().bnot(x),
            Op::BoolEqual | Op::NullEqual | Op::CharEqual | Op::IntEqual => self.compare(IntCC::Equal, x, y),
            Op::IntLt => self.compare(IntCC::SignedLessThan, x, y),
            Op::IntLe => self.compare(IntCC::SignedLessThanOrEqual, x, y),
            Op::IntGt => self.compare(IntCC::SignedGreaterThan, x, y),
            Op::IntGe => self.compare(IntCC::SignedGreaterThanOrEqual, x, y),
            Op::CharLt => self.compare(IntCC::UnsignedLessThan, x, y),
            Op::CharLe => self.compare(IntCC::UnsignedLessThanOrEqual, x, y),
            Op::CharGt => self.compare(IntCC::UnsignedGreaterThan, x, y),
            Op::CharGe => self.compare(IntCC::UnsignedGreaterThanOrEqual, x, y),
            Op::CharToInt => x,
            Op::IntAdd => match (constant(args[0]), constant(args[1])) {
                (None, Some(n)) => self.add_constant(x, n),
                (Some(n), None) => self.add_constant(y, n),
                _ => self.result_of(Operation::Values(op, x, y), |this| {
                    let (value, over) = this.b.ins().sadd_overflow(x, y);
                    this.signal_if(over, signals.overflow);
                    value
                }),
            },
            Op::IntSub => match constant(args[1]).and_then(i64::checked_neg) {
                Some(n) => self.add_constant(x, n),
                None => self.result_of(Operation::Values(op, x, y), |this| {
                    let (value, over) = this.b.ins().ssub_overflow(x, y);
                    this.signal_if(over, signals.overflow);
                    value
                }),
            },
            Op::IntMul if constant(args[1]).is_some_and(is_factor) => self.multiply(x, constant(args[1])),
            Op::IntMul if constant(args[0]).is_some_and(is_factor) => self.multiply(y, constant(args[0])),
            Op::IntMul => self.result_of(Operation::Values(op, x, y), |this| {
                let (value, over) = this.b.ins().smul_overflow(x, y);
                this.signal_if(over, signals.overflow);
                value
            }),
            Op::IntNegate => {
                let least = self.b.ins().icmp_imm_s(IntCC::Equal, x, i64::MIN);
                self.signal_if(least, signals.overflow);
                self.b.ins().ineg(x)
            }
            Op::IntAbs => {
                let least = self.b.ins().icmp_imm_s(IntCC::Equal, x, i64::MIN);
                self.signal_if(least, signals.overflow);
                self.absolute(x)
            }
            Op::IntMin => self.b.ins().smin(x, y),
            Op::IntMax => self.b.ins().smax(x, y),
            Op::IntDiv => self.divide(x, y, args[1], true),
            Op::IntMod => self.divide(x, y, args[1], false),
            Op::IntShl | Op::IntShr => {
                let outside = self.b.ins().icmp_imm_s(IntCC::UnsignedGreaterThanOrEqual, y, 64);
                self.signal_if(outside, signals.bounds);
                if op == Op::IntShl { self.b.ins().ishl(x, y) } else { self.b.ins().sshr(x, y) }
            }
            Op::IntToReal => self.b.ins().fcvt_from_sint(types::F64, x),
            Op::IntToChar => {
                let low = self.b.ins().icmp_imm_s(IntCC::UnsignedLessThan, x, 0xD800);
                let above = self.b.ins().iadd_imm_s(x, -0xE000);
                let high = self.b.ins().icmp_imm_s(IntCC::UnsignedLessThan, above, 0x11_0000 - 0xE000);
                let legal = self.b.ins().bor(low, high);
                let illegal = self.b.ins().icmp_imm_s(IntCC::Equal, legal, 0);
                self.signal_if(illegal, signals.illegal_char);
                x
            }
            Op::RealAdd => self.b.ins().fadd(x, y),
            Op::RealSub => self.b.ins().fsub(x, y),
            Op::RealMul => self.b.ins().fmul(x, y),
            Op::RealDiv => self.b.ins().fdiv(x, y),
            Op::RealNegate => self.b.ins().fneg(x),
            Op::RealAbs => self.b.ins().fabs(x),
            Op::RealSqrt => self.b.ins().sqrt(x),
            Op::RealLt => self.compare_reals(FloatCC::LessThan, x, y),
            Op::RealLe => self.compare_reals(FloatCC::LessThanOrEqual, x, y),
            Op::RealGt => self.compare_reals(FloatCC::GreaterThan, x, y),
            Op::RealGe => self.compare_reals(FloatCC::GreaterThanOrEqual, x, y),
            Op::RealEqual => self.compare_reals(FloatCC::Equal, x, y),
            Op::RealIsNan => self.compare_reals(FloatCC::Unordered, x, x),
        }
    }

    /// Adds a constant. The sum went over if it is on the wrong side of the other operand. This is
    /// one comparison, where the overflow flag would have to be fetched first.
    fn add_constant(&mut self, x: Value, n: i64) -> Value {
        let overflow = self.unit.image.signals().overflow;
        self.result_of(Operation::AddConstant(x, n), |this| {
            let value = this.b.ins().iadd_imm_s(x, n);
            let wrong = if n >= 0 { IntCC::SignedLessThan } else { IntCC::SignedGreaterThan };
            let over = this.b.ins().icmp(wrong, value, x);
            this.signal_if(over, overflow);
            value
        })
    }

    /// Multiplies by a constant: a product that does not go over has its other factor between two
    /// constants, which is one comparison.
    fn multiply(&mut self, x: Value, factor: Option<i64>) -> Value {
        let n = factor.expect("checked by the caller");
        let overflow = self.unit.image.signals().overflow;
        let (low, high) = if n > 0 { (i64::MIN / n, i64::MAX / n) } else { (i64::MAX / n, i64::MIN / n) };
        let above = self.b.ins().iadd_imm_s(x, -low);
        let most = self.int(high - low);
        let over = self.b.ins().icmp(IntCC::UnsignedGreaterThan, above, most);
        self.signal_if(over, overflow);
        self.b.ins().imul_imm_s(x, n)
    }

    /// The truth value of a comparison, as a word.
    pub(super) fn compare(&mut self, how: IntCC, x: Value, y: Value) -> Value {
        let truth = self.b.ins().icmp(how, x, y);
        self.b.ins().uextend(types::I64, truth)
    }

    pub(super) fn int_test(&mut self, how: IntCC, x: Value, y: i64) -> Value {
        let truth = self.b.ins().icmp_imm_s(how, x, y);
        self.b.ins().uextend(types::I64, truth)
    }

    fn compare_reals(&mut self, how: FloatCC, x: Value, y: Value) -> Value {
        let truth = self.b.ins().fcmp(how, x, y);
        self.b.ins().uextend(types::I64, truth)
    }

    /// The absolute value of an integer that is not the least one.
    fn absolute(&mut self, x: Value) -> Value {
        let negative = self.b.ins().ineg(x);
        self.b.ins().smax(x, negative)
    }

    /// Quotient or remainder with x = q*y + r, 0 <= r < |y| (`docs/book/language/library.md`).
    fn divide(&mut self, x: Value, y: Value, divisor: Operand, quotient: bool) -> Value {
        let signals = *self.unit.image.signals();
        let known = constant(divisor);
        if known.is_none_or(|n| n == 0) {
            let zero = self.b.ins().icmp_imm_s(IntCC::Equal, y, 0);
            self.signal_if(zero, signals.zero);
        }
        if known.is_some_and(|n| n != -1 && n != 0) {
            return self.divide_nonzero(x, y, known, quotient);
        }
        // By -1, where the machine's instruction traps for the least integer.
        let (negate, divide, done) = (self.cold_block(), self.b.create_block(), self.b.create_block());
        let result = self.b.append_block_param(done, types::I64);
        let minus_one = self.b.ins().icmp_imm_s(IntCC::Equal, y, -1);
        self.b.ins().brif(minus_one, negate, &[], divide, &[]);
        self.start(negate);
        let value = if quotient {
            let least = self.b.ins().icmp_imm_s(IntCC::Equal, x, i64::MIN);
            self.signal_if(least, signals.overflow);
            self.b.ins().ineg(x)
        } else {
            self.int(0)
        };
        self.b.ins().jump(done, &[BlockArg::Value(value)]);
        self.start(divide);
        let value = self.divide_nonzero(x, y, None, quotient);
        self.b.ins().jump(done, &[BlockArg::Value(value)]);
        self.start(done);
        result
    }

    /// Euclidean division by neither 0 nor -1.
    fn divide_nonzero(&mut self, x: Value, y: Value, known: Option<i64>, quotient: bool) -> Value {
        if let Some(n) = known.filter(|n| *n > 0 && n.count_ones() == 1) {
            return match quotient {
                true => self.b.ins().sshr_imm_u(x, i64::from(n.trailing_zeros())),
                false => self.b.ins().band_imm_s(x, n - 1),
            };
        }
        let q = self.b.ins().sdiv(x, y);
        let product = self.b.ins().imul(q, y);
        let r = self.b.ins().isub(x, product);
        let below = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, r, 0);
        let positive = known.map(|n| n > 0);
        if quotient {
            let (less, more) = (self.b.ins().iadd_imm_s(q, -1), self.b.ins().iadd_imm_s(q, 1));
            let fixed = match positive {
                Some(true) => less,
                Some(false) => more,
                None => {
                    let positive = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, y, 0);
                    self.b.ins().select(positive, less, more)
                }
            };
            return self.b.ins().select(below, fixed, q);
        }
        // |y| of the least integer wraps to itself, and so does the sum: r + |y| is right modulo
        // 2^64.
        let size = match positive {
            Some(true) => y,
            Some(false) => self.b.ins().ineg(y),
            None => {
                let negative = self.b.ins().ineg(y);
                let positive = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, y, 0);
                self.b.ins().select(positive, y, negative)
            }
        };
        let fixed = self.b.ins().iadd(r, size);
        self.b.ins().select(below, fixed, r)
    }
}

/// True if there is a faster way to multiply by a number.
fn is_factor(n: i64) -> bool {
    !(-1..=1).contains(&n)
}

fn constant(operand: Operand) -> Option<i64> {
    match operand {
        Operand::Const(Const::Int(n)) => Some(n),
        _ => None,
    }
}
