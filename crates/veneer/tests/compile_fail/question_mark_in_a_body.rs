#[path = "../stubs/bifrost_stubs.rs"]
mod stubs;

fn main() {}

fn a_body_cannot_leave_early(s: bifrost_veneer::Session, p: stubs::Point) -> Result<(), bifrost_veneer::Error> {
    s.if_(p.x().lt(1), || {
        s.flush()?;
    });
    Ok(())
}
