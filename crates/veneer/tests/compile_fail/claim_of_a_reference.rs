#[path = "../stubs/bifrost_stubs.rs"]
mod stubs;

fn main() {}

fn an_object_has_no_value(db: stubs::DataBase) {
    let _ = db.fetch("x").claim();
}
