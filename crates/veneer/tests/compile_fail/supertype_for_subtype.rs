#[path = "../stubs/bifrost_stubs.rs"]
mod stubs;

fn main() {}

fn a_supertype_is_too_little(c: bifrost_veneer::Cell<stubs::NamedElem>, e: stubs::DataElem) {
    c.put(&e);
}
