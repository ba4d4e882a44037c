#[path = "../stubs/bifrost_stubs.rs"]
mod stubs;

fn main() {}

fn an_iterator_is_no_call(db: stubs::DataBase, e: stubs::DataElem) {
    db.users().touch();
    db.adopt(db.users());
    for _ in db.users() {}
    let _ = e;
}
