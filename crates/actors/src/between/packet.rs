//! The numbers of packets as bytes, and the faults of packets.

use std::borrow::Cow;

use bifrost_runtime::transfer::NotReceived;

/// The index and generation in place of a waiter, if none waits.
pub(crate) const NOBODY: u32 = u32::MAX;

/// Returns a packet of numbers with its length, as it stands among packets.
pub(crate) fn framed(kind: u8, numbers: &[u32]) -> Vec<u8> {
    let mut packet = (1 + 4 * numbers.len() as u32).to_le_bytes().to_vec();
    packet.push(kind);
    put(&mut packet, numbers);
    packet
}

pub(crate) fn put(packet: &mut Vec<u8>, numbers: &[u32]) {
    numbers.iter().for_each(|number| packet.extend_from_slice(&number.to_le_bytes()));
}

/// The place of the waiter in the packet of a message.
pub(crate) const WAITER: usize = 1 + 4 * 4;

/// The reason why a packet is dropped.
#[derive(Debug)]
pub(crate) enum Wrong {
    /// No correct node sends it.
    Never(Cow<'static, str>),
    /// The object that it names is not here any more, or there is no room for it.
    Late(Cow<'static, str>),
}

impl Wrong {
    pub(crate) fn why(&self) -> &str {
        let (Wrong::Never(why) | Wrong::Late(why)) = self;
        why
    }
}

impl From<&'static str> for Wrong {
    fn from(why: &'static str) -> Wrong {
        Wrong::Never(Cow::Borrowed(why))
    }
}

impl From<NotReceived> for Wrong {
    fn from(why: NotReceived) -> Wrong {
        match why {
            NotReceived::Malformed { .. } | NotReceived::Unfit(_) => Wrong::Never(why.to_string().into()),
            NotReceived::Full(_) | NotReceived::Address(_) => Wrong::Late(why.to_string().into()),
        }
    }
}

/// Returns the reason of a packet that arrives too late.
pub(crate) fn late(why: &'static str) -> Wrong {
    Wrong::Late(Cow::Borrowed(why))
}

pub(crate) fn number(packet: &mut &[u8]) -> Result<u32, Wrong> {
    let [number] = numbers(packet)?;
    Ok(number)
}

#[inline]
pub(crate) fn numbers<const N: usize>(packet: &mut &[u8]) -> Result<[u32; N], Wrong> {
    let (bytes, rest) = packet.split_at_checked(4 * N).ok_or("it ends too early")?;
    *packet = rest;
    let mut numbers = [0; N];
    for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
        *number = u32::from_le_bytes(*bytes);
    }
    Ok(numbers)
}

/// The bytes of the length of a packet.
pub(crate) const LENGTH_BYTES: usize = 4;
