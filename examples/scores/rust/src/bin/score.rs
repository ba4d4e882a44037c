//! Adds points to a player of `examples/scores/scores.theta`: `score NAME POINTS`.

use bifrost_veneer::How;
use scores_client::bifrost_stubs::{Scores, connect};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(name), Some(points)) = (arguments.next(), arguments.next()) else {
        return Err("a name and a number of points are needed".into());
    };
    let points: i64 = points.parse()?;
    let s = connect(&std::env::var("BIFROST_URL")?)?;
    let scores: Scores = s.lookup("scores");
    let now = s.transaction(How::default(), || scores.score(&name, points))?;
    println!("{name} has {} points", now.claim()?);
    s.close()?;
    Ok(())
}
