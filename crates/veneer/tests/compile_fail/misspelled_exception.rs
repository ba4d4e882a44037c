#[path = "../stubs/bifrost_stubs.rs"]
mod stubs;

fn main() {}

fn a_handler_names_an_exception(s: bifrost_veneer::Session, db: stubs::DataBase) {
    s.except(|| drop(db.fetch("ann"))).when::<stubs::signals::NotFund>(|_| ());
    let _ = db.fetch("ann").caught::<stubs::NamedElem>();
}
