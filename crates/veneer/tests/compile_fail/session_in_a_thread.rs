#[path = "../stubs/bifrost_stubs.rs"]
mod stubs;

fn main() {}

fn a_session_stays_in_its_thread(s: bifrost_veneer::Session) {
    std::thread::spawn(move || s.flush());
}
