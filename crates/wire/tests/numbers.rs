//! Numbers of operations and errors are used once.

use bifrost_wire::*;

#[test]
fn numbers_are_used_once() {
    let mut codes: Vec<u8> = op::TABLE.iter().map(|r| r.code).collect();
    codes.sort_unstable();
    assert!(codes.windows(2).all(|w| w[0] < w[1]));
    for row in error::TABLE {
        assert_eq!(ErrorNumber::from_number(row.number as u32), Some(row.number));
    }
}
