#[path = "../stubs/bifrost_stubs.rs"]
#[allow(dead_code)]
mod stubs;

fn main() {}

fn a_supertype_is_too_little(c: bifrost_veneer::Cell<stubs::NamedElem>, e: stubs::DataElem) {
    c.put(&e);
}
