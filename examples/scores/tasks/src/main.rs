//! Tasks that share sessions with a server of `examples/scores/scores.theta`.
//!
//! Three tasks of each player add points, each add in a transaction of its own; another task
//! watches the players and prints them when all points are there. Claims are awaited, so that a
//! thread carries as many tasks as it likes.
//!
//!     BIFROST_URL=unix:///run/bifrost/scores cargo run -p scores-tasks -- 10

use bifrost_veneer::{Error, How, Pool, Session};
use scores_tasks::bifrost_stubs::{INTERFACE, Scores, connect_async};

const PLAYERS: [&str; 4] = ["ada", "ann", "bob", "eve"];
const TASKS: i64 = 3;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let adds: i64 = std::env::args().nth(1).map_or(Ok(10), |adds| adds.parse())?;
    let url = std::env::var("BIFROST_URL")?;

    // One session for all who read. Its claims cross together.
    let s = connect_async(&url).await?;
    let scores: Scores = s.lookup("scores");
    let before = sum(&s, &scores).await?;
    let watcher = tokio::spawn(watch(url.clone(), before + adds * TASKS * PLAYERS.len() as i64));

    // A session for each that writes, at most eight: a transaction belongs to a session.
    let pool = Session::builder(&INTERFACE).pool(&url, 8);
    let names = PLAYERS.iter().cycle().take(PLAYERS.len() * TASKS as usize);
    let writers: Vec<_> = names.map(|name| tokio::spawn(add(pool.clone(), name, adds))).collect();
    for writer in writers {
        writer.await??;
    }
    println!("{}", watcher.await??);

    s.close_async().await?;
    Ok(())
}

/// Adds a point so often.
async fn add(
    pool: Pool,
    name: &'static str,
    adds: i64,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    for _ in 0..adds {
        let s = pool.get().await?;
        let scores: Scores = s.lookup("scores");
        // The server runs it again after a conflict, as often as it may; then it is sent again.
        let scored = loop {
            match s.transaction_async(How::default(), || scores.score(name, 1)).await {
                Ok(scored) => break scored,
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        };
        scored.await?;
    }
    Ok(())
}

/// Returns the points of all players.
async fn sum(s: &Session, scores: &Scores) -> Result<i64, Error> {
    let points = s.collect(scores.players().values(), |player| (player.points(),));
    Ok(points.await?.iter().map(|(points,)| points).sum())
}

/// Watches until all points are there; returns the players.
async fn watch(url: String, all: i64) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let s = connect_async(&url).await?;
    let scores: Scores = s.lookup("scores");
    let players = scores.players();
    let session = s.clone();
    let mut views =
        s.live(move || session.collect(players.values(), |player| (player.name(), player.points())));
    while let Some(view) = views.next_async().await {
        let view = view?;
        if view.iter().map(|(_, points)| points).sum::<i64>() >= all {
            let line: Vec<String> = view.iter().map(|(name, points)| format!("{name} {points}")).collect();
            return Ok(line.join(", "));
        }
    }
    Ok("the views have ended".to_owned())
}
