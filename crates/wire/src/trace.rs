//! [`TraceContext`]: the place of a client in a trace that others collect, as the field
//! `traceparent` of W3C Trace Context has it.

use std::fmt;

/// The place of a client in a trace: the spans of its batches have this parent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceContext {
    /// The number of the trace; not 0.
    pub trace: u128,
    /// The number of the parent span; not 0.
    pub parent: u64,
    /// The flags of the trace.
    pub flags: u8,
}

/// The flag of a trace that is collected.
const SAMPLED: u8 = 1;

/// The form that is expected of a trace context.
pub(crate) const FORM: &str =
    "a `traceparent` of W3C, as 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

impl TraceContext {
    /// Reads the value of a `traceparent`. Of a version above 00 the fields of 00 are read, as the
    /// recommendation asks.
    pub fn parse(text: &str) -> Option<TraceContext> {
        let (version, rest) = fixed(text, 2)?;
        let version = hex(version)?;
        let (trace, rest) = fixed(rest.strip_prefix('-')?, 32)?;
        let (parent, rest) = fixed(rest.strip_prefix('-')?, 16)?;
        let (flags, rest) = fixed(rest.strip_prefix('-')?, 2)?;
        let whole = rest.is_empty() || (version > 0 && rest.starts_with('-'));
        let (trace, parent, flags) = (hex(trace)?, hex(parent)?, hex(flags)?);
        let fits = whole && version != 0xff && trace != 0 && parent != 0;
        fits.then_some(TraceContext { trace, parent: parent as u64, flags: flags as u8 })
    }

    /// True if the trace is collected.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }
}

/// Returns the first bytes of a text, and the rest.
fn fixed(text: &str, bytes: usize) -> Option<(&str, &str)> {
    text.split_at_checked(bytes)
}

/// Reads a number of small hexadecimal digits.
fn hex(digits: &str) -> Option<u128> {
    let small = digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    if small { u128::from_str_radix(digits, 16).ok() } else { None }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.parent, self.flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_trace_context_is_read_and_written() {
        let context = TraceContext::parse(TEXT).unwrap();
        assert_eq!(context.trace, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!((context.parent, context.is_sampled()), (0xb7ad_6b71_6920_3331, true));
        assert_eq!(context.to_string(), TEXT);
        let other = TEXT.replace("-01", "-02");
        assert!(!TraceContext::parse(&other).unwrap().is_sampled());
        // Later versions may have more.
        let later = format!("01{}-more", &TEXT[2..]);
        assert_eq!(TraceContext::parse(&later), Some(context));
    }

    #[test]
    fn others_are_refused() {
        let zero_trace = format!("00-{:032x}-b7ad6b7169203331-01", 0);
        let zero_parent = format!("00-0af7651916cd43dd8448eb211c80319c-{:016x}-01", 0);
        for wrong in [
            "",
            "00",
            &TEXT[..54],
            &format!("{TEXT}-more"),
            &format!("{TEXT} "),
            &format!("ff{}", &TEXT[2..]),
            &TEXT.to_uppercase(),
            &TEXT.replace('-', "_"),
            &TEXT.replace("b7", "+7"),
            &TEXT.replace("b7", "é"),
            &format!("01{}more", &TEXT[2..]),
            &zero_trace,
            &zero_parent,
        ] {
            assert_eq!(TraceContext::parse(wrong), None, "{wrong}");
        }
    }
}
