//! Sessions that a pool lends.

mod site;

use std::time::Duration;

use bifrost_veneer::{Pool, Session};
use scores_tasks::bifrost_stubs::{INTERFACE, Scores};
use site::{Site, poll_once};

fn pool(site: &Site, most: usize) -> Pool {
    Session::builder(&INTERFACE).pool(site.url("unix"), most)
}

#[test]
fn a_session_is_used_again_without_what_its_last_task_did() {
    let site = Site::start();
    smol::block_on(async {
        let pool = pool(&site, 2);
        for _ in 0..10 {
            let s = pool.get().await.unwrap();
            let scores: Scores = s.lookup("scores");
            // Nothing of the task before was committed, and none of its failures is told here.
            assert_eq!(scores.score("ann", 1).await.unwrap(), 1);
            drop(scores.player("nobody").points());
            s.send_batch().unwrap();
            drop(scores);
        }
        assert_eq!((site.server.sessions(), pool.idle()), (1, 1));
        let s = pool.get().await.unwrap();
        s.flush_async().await.unwrap();
        let scores: Scores = s.lookup("scores");
        scores.score("ann", 1);
        s.commit_async().await.unwrap();
    });
}

#[test]
fn a_session_with_stubs_that_are_kept_is_not_lent_again() {
    let site = Site::start();
    smol::block_on(async {
        let pool = pool(&site, 1);
        let kept: Scores = {
            let s = pool.get().await.unwrap();
            s.lookup("scores")
        };
        assert_eq!(pool.idle(), 0);
        let s = pool.get().await.unwrap();
        let scores: Scores = s.lookup("scores");
        scores.score("ann", 7);
        // The kept stub is one of another session, with its own transaction.
        assert_eq!(kept.score("ann", 1).await.unwrap(), 1);
        assert_eq!(scores.score("ann", 0).await.unwrap(), 7);
    });
}

#[test]
fn tasks_wait_while_all_sessions_are_lent() {
    let site = Site::start();
    smol::block_on(async {
        let pool = pool(&site, 2);
        let (one, other) = (pool.get().await.unwrap(), pool.get().await.unwrap());
        assert!(poll_once(pool.get()).is_pending());
        let waiting = smol::spawn({
            let pool = pool.clone();
            async move { pool.get().await.unwrap().flush_async().await.unwrap() }
        });
        smol::Timer::after(Duration::from_millis(50)).await;
        assert!(!waiting.is_finished());
        drop(one);
        waiting.await;
        drop(other);
        assert_eq!(site.server.sessions(), 2);
        // A thread that may wait.
        smol::unblock(move || drop(pool.get_blocking().unwrap())).await;
    });
}

#[test]
fn sessions_that_have_ended_are_replaced() {
    let site = Site::start_with(|config| {
        config.limits.insert("idle_ms_max".to_owned(), 200);
    });
    smol::block_on(async {
        let pool = pool(&site, 3);
        drop((pool.get().await.unwrap(), pool.get().await.unwrap()));
        assert_eq!(pool.idle(), 2);
        smol::Timer::after(Duration::from_millis(1500)).await;
        let s = pool.get().await.unwrap();
        let scores: Scores = s.lookup("scores");
        assert_eq!(scores.player("ada").points().await.unwrap(), 3);
        drop((scores, s));
        let Site { server, folder } = site;
        drop(server);
        assert!(pool.get().await.is_err());
        drop(folder);
    });
}
