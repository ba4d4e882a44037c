//! Watches the players of `examples/scores/scores.theta`: prints them all whenever one has changed.
//!
//! With a number of points as argument it ends when a player has so many.

use scores_client::bifrost_stubs::{Scores, connect};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let most: i64 = std::env::args().nth(1).map_or(Ok(i64::MAX), |most| most.parse())?;
    let s = connect(&std::env::var("BIFROST_URL")?)?;
    let scores: Scores = s.lookup("scores");
    let players = scores.players();
    for view in s.live(|| s.collect(players.values(), |player| (player.name(), player.points()))) {
        let view = view?;
        let line: Vec<String> = view.iter().map(|(name, points)| format!("{name} {points}")).collect();
        println!("{}", line.join(", "));
        if view.iter().any(|(_, points)| *points >= most) {
            break;
        }
    }
    s.close()?;
    Ok(())
}
