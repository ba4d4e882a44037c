#[path = "../stubs/bifrost_stubs.rs"]
mod stubs;

fn main() {}

fn a_promise_of_another_type(p: stubs::Point, e: stubs::DataElem) {
    p.set_x(e.name());
}
