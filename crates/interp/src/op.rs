//! The operations on basic words. The compiler's code must agree.

use bifrost_ir::builtin::Op;
use bifrost_runtime::abi::Word;

/// The exception that an operation signals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpError {
    /// `overflow`
    Overflow,
    /// `zero`
    Zero,
    /// `bounds`
    Bounds,
    /// `illegal_char`
    IllegalChar,
}

/// Carries out an operation. Operations of one operand ignore `b`.
///
/// # Errors
/// The exception that the operation's row of the built-in table declares.
#[inline(always)]
pub fn apply(op: Op, a: Word, b: Word) -> Result<Word, OpError> {
    let (x, y) = (a as i64, b as i64);
    let (f, g) = (f64::from_bits(a), f64::from_bits(b));
    let int = |v: Option<i64>| v.map(|v| v as Word).ok_or(OpError::Overflow);
    let truth = |v: bool| Ok(Word::from(v));
    let real = |v: f64| Ok(v.to_bits());
    match op {
        Op::BoolNot => Ok(a ^ 1),
        Op::BoolAnd => Ok(a & b),
        Op::BoolOr => Ok(a | b),
        Op::BoolXor => Ok(a ^ b),
        Op::BoolEqual | Op::NullEqual | Op::CharEqual | Op::IntEqual => truth(a == b),
        Op::IntAdd => int(x.checked_add(y)),
        Op::IntSub => int(x.checked_sub(y)),
        Op::IntMul => int(x.checked_mul(y)),
        // x = q*y + r with 0 <= r < |y| (`docs/book/language/library.md`): Euclidean.
        Op::IntDiv if y == 0 => Err(OpError::Zero),
        Op::IntDiv => int(x.checked_div_euclid(y)),
        Op::IntMod if y == 0 => Err(OpError::Zero),
        Op::IntMod => Ok(x.wrapping_rem_euclid(y) as Word),
        Op::IntNegate => int(x.checked_neg()),
        Op::IntAbs => int(x.checked_abs()),
        Op::IntMin => Ok(x.min(y) as Word),
        Op::IntMax => Ok(x.max(y) as Word),
        Op::IntLt => truth(x < y),
        Op::IntLe => truth(x <= y),
        Op::IntGt => truth(x > y),
        Op::IntGe => truth(x >= y),
        Op::IntNot => Ok(!a),
        Op::IntAnd => Ok(a & b),
        Op::IntOr => Ok(a | b),
        Op::IntXor => Ok(a ^ b),
        Op::IntShl | Op::IntShr if !(0..64).contains(&y) => Err(OpError::Bounds),
        Op::IntShl => Ok((x << y) as Word),
        Op::IntShr => Ok((x >> y) as Word),
        Op::IntToReal => real(x as f64),
        Op::IntToChar => match u32::try_from(x).ok().and_then(char::from_u32) {
            Some(c) => Ok(Word::from(u32::from(c))),
            None => Err(OpError::IllegalChar),
        },
        Op::RealAdd => real(f + g),
        Op::RealSub => real(f - g),
        Op::RealMul => real(f * g),
        Op::RealDiv => real(f / g),
        Op::RealNegate => real(-f),
        Op::RealAbs => real(f.abs()),
        Op::RealLt => truth(f < g),
        Op::RealLe => truth(f <= g),
        Op::RealGt => truth(f > g),
        Op::RealGe => truth(f >= g),
        Op::RealEqual => truth(f == g),
        Op::RealIsNan => truth(f.is_nan()),
        Op::RealSqrt => real(f.sqrt()),
        Op::CharLt => truth(a < b),
        Op::CharLe => truth(a <= b),
        Op::CharGt => truth(a > b),
        Op::CharGe => truth(a >= b),
        Op::CharToInt => Ok(a),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(op: Op, a: i64, b: i64) -> Result<i64, OpError> {
        apply(op, a as u64, b as u64).map(|w| w as i64)
    }

    #[test]
    fn division_leaves_a_remainder_that_is_not_negative() {
        for (x, y) in [(7, 2), (-7, 2), (7, -2), (-7, -2), (i64::MIN, 3), (i64::MAX, -5)] {
            let q = int(Op::IntDiv, x, y).unwrap();
            let r = int(Op::IntMod, x, y).unwrap();
            assert_eq!(i128::from(q) * i128::from(y) + i128::from(r), i128::from(x));
            assert!(0 <= r && r < y.abs(), "{x} {y}: {r}");
        }
        assert_eq!(int(Op::IntDiv, i64::MIN, -1), Err(OpError::Overflow));
        assert_eq!(int(Op::IntMod, i64::MIN, -1), Ok(0));
        assert_eq!(int(Op::IntDiv, 1, 0), Err(OpError::Zero));
        assert_eq!(int(Op::IntMod, 1, 0), Err(OpError::Zero));
    }

    #[test]
    fn edges_signal() {
        assert_eq!(int(Op::IntAdd, i64::MAX, 1), Err(OpError::Overflow));
        assert_eq!(int(Op::IntNegate, i64::MIN, 0), Err(OpError::Overflow));
        assert_eq!(int(Op::IntAbs, i64::MIN, 0), Err(OpError::Overflow));
        assert_eq!(int(Op::IntShl, 1, 63), Ok(i64::MIN));
        assert_eq!(int(Op::IntShl, 1, 64), Err(OpError::Bounds));
        assert_eq!(int(Op::IntShr, i64::MIN, 63), Ok(-1));
        assert_eq!(int(Op::IntShr, 1, -1), Err(OpError::Bounds));
        assert_eq!(int(Op::IntToChar, 0xD800, 0), Err(OpError::IllegalChar));
        assert_eq!(int(Op::IntToChar, 65, 0), Ok(65));
    }
}
