#[path = "../stubs/bifrost_stubs.rs"]
mod stubs;

fn main() {}

fn a_condition_is_a_bool(s: bifrost_veneer::Session, p: stubs::Point) {
    s.if_(p.x(), || ());
    s.while_(|| p.x(), || ());
    if p.x() {}
}
