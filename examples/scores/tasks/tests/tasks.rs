//! Sessions that tasks await, on several executors, against a real server.

mod site;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use bifrost_veneer::{Closed, ConnectError, Error, How, Misuse, Session};
use scores_tasks::bifrost_stubs::{INTERFACE, Scores, connect, connect_async};
use site::{Site, poll_once, session};

/// Runs a test on a runtime of tokio with several threads, on one with one thread, and on that of
/// smol.
fn on_each_executor(test: impl AsyncFn()) {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap().block_on(test());
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(test());
    smol::block_on(test());
}

#[test]
fn claims_are_futures_on_every_executor_and_transport() {
    let site = Site::start();
    on_each_executor(async || {
        for scheme in ["unix", "tcp", "tls"] {
            let (s, scores) = session(&site.url(scheme)).await;
            let ada = scores.player("ada");
            let (name, points) = (ada.name(), ada.points());
            assert_eq!((&name).await.unwrap(), "ada");
            assert_eq!(points.await.unwrap(), 3);
            // Both crossed once.
            assert_eq!(s.counters().crossings, 1);
            let (again, rows) = s
                .claim_async((ada.clone(), s.collect(scores.players().values(), |p| (p.name(), p.points()))))
                .await
                .unwrap();
            assert_eq!(rows, [("ada".to_owned(), 3), ("bob".to_owned(), 0)]);
            assert_eq!(again.name().await.unwrap(), "ada");
            s.close_async().await.unwrap();
        }
    });
}

#[test]
fn many_tasks_share_a_session_and_its_crossings() {
    let site = Site::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let (s, scores) = site.session().await;
        s.claim_async(scores.clone()).await.unwrap();
        let tasks: Vec<_> = (0..200)
            .map(|task| {
                let scores = scores.clone();
                tokio::spawn(async move {
                    for round in 0..20 {
                        let name = if (task + round) % 2 == 0 { "ada" } else { "bob" };
                        let player = scores.player(name);
                        let (found, points) = (player.name(), player.points());
                        assert_eq!(points.await.unwrap(), if name == "ada" { 3 } else { 0 });
                        assert_eq!(found.await.unwrap(), name);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let counters = s.counters();
        assert_eq!(counters.calls, 1 + 200 * 20 * 3);
        assert!(counters.crossings < 200 * 20, "tasks crossed together: {counters:?}");
    });
}

#[test]
fn batches_overlap_and_name_what_is_under_way() {
    let site = Site::start();
    smol::block_on(async {
        let (s, scores) = site.session().await;
        let before = s.counters().crossings;
        // Nothing is answered between: each batch uses the results of the ones before.
        let mut sum = s.value(0) + 0;
        for _ in 0..10 {
            sum = scores.score("ann", &sum + 1);
            s.send_batch().unwrap();
        }
        assert_eq!(s.counters().crossings - before, 10);
        // 1, 2, 4, ...: the sum of all that was added.
        assert_eq!(sum.await.unwrap(), (1 << 10) - 1);
    });
}

#[test]
fn a_dropped_claim_loses_nothing() {
    let site = Site::start();
    smol::block_on(async {
        let (s, scores) = site.session().await;
        s.claim_async(scores.clone()).await.unwrap();
        let first = scores.score("ann", 1);
        assert!(poll_once(s.claim_async(first.clone())).is_pending());
        // Recorded behind a batch that nobody awaits any more.
        let second = scores.score("ann", &first);
        assert!(poll_once(s.flush_async()).is_pending());
        assert_eq!(second.await.unwrap(), 2);
        assert_eq!(first.peek().unwrap().unwrap(), 1);
        // More than the socket takes at once, dropped in the middle of the way.
        let long = "x".repeat(700_000);
        let names: Vec<_> = (0..20).map(|n| scores.score(format!("{long}{n}"), 1)).collect();
        assert!(poll_once(s.flush_async()).is_pending());
        assert_eq!(s.claim_async(names).await.unwrap(), vec![1; 20]);
        s.abort().await.unwrap();
    });
}

#[test]
fn answers_longer_than_any_buffer_come_while_more_is_sent() {
    let site = Site::start();
    smol::block_on(async {
        for scheme in ["unix", "tcp", "tls"] {
            let (s, scores) = session(&site.url(scheme)).await;
            let long = "y".repeat(900_000);
            scores.score(long.as_str(), 1);
            let names: Vec<_> = (0..32)
                .map(|_| {
                    let name = scores.player(long.as_str()).name();
                    s.send_batch().unwrap();
                    name
                })
                .collect();
            for name in names {
                assert_eq!(name.await.unwrap(), long);
            }
            s.abort().await.unwrap();
        }
    });
}

#[test]
fn failures_are_told_as_by_claims() {
    let site = Site::start();
    smol::block_on(async {
        let (s, scores) = site.session().await;
        let zoe = scores.player("zoe");
        let points = zoe.points();
        let error = points.await.unwrap_err();
        assert_eq!(error.root().signal(), Some("not_found"));
        // It was told, so it does not prevent the commit.
        scores.score("ann", 0);
        s.commit_async().await.unwrap();
        // One that nobody was told of does, also with its batch under way.
        drop(scores.player("yan").points());
        s.send_batch().unwrap();
        scores.score("ann", 100);
        let error = s.commit_async().await.unwrap_err();
        assert!(matches!(&error, Error::Unseen { failures, .. } if failures.len() == 1), "{error}");
        assert_eq!(scores.score("ann", 0).await.unwrap(), 0);
        // A lost failure surfaces with the flush.
        drop(scores.player("yan"));
        assert!(matches!(s.flush_async().await, Err(Error::Unseen { .. })));
        s.flush_async().await.unwrap();
    });
}

#[test]
fn transactions_are_awaited_and_run_again_by_the_server() {
    let site = Site::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let url = site.url("unix");
                tokio::spawn(async move {
                    let (s, scores) = session(&url).await;
                    let mut done = 0;
                    while done < 25 {
                        match s.transaction_async(How::default(), || scores.score("bob", 1)).await {
                            Ok(_) => done += 1,
                            Err(error) if error.is_conflict() => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                    let failed = s.transaction_async(How::default(), || drop(scores.player("nobody").name()));
                    assert!(failed.await.is_err());
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let (_s, scores) = site.session().await;
        assert_eq!(scores.player("bob").points().await.unwrap(), 200);
    });
}

#[test]
fn a_structure_is_one_threads_own() {
    let site = Site::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    runtime.block_on(async {
        let (s, scores) = site.session().await;
        s.claim_async(scores.clone()).await.unwrap();
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (s, scores) = (s.clone(), scores.clone());
                std::thread::spawn(move || {
                    for round in 0..200 {
                        // Else calls of the other threads would be in the structure, and run twice.
                        let twice = s.cell_with(0);
                        s.foreach(s.value(1).to(2), |_| {
                            std::thread::yield_now();
                            scores.score("ann", 0);
                            twice.put(twice.get() + 1);
                        });
                        s.if_(twice.get().eq_(2), || {
                            scores.score("bob", 0);
                        })
                        .else_(|| {
                            scores.score(format!("wrong {thread} {round}"), 1);
                        });
                        if round % 50 == 0 {
                            assert_eq!(twice.get().claim().unwrap(), 2);
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let names = s.collect(scores.players().values(), |player| (player.name(),)).await.unwrap();
        assert_eq!(names, [("ada".to_owned(),), ("ann".to_owned(),), ("bob".to_owned(),)]);
        assert_eq!(s.exceptions().len(), 0);
    });
}

#[test]
fn calls_that_wait_and_futures_go_together() {
    let site = Site::start();
    smol::block_on(async {
        let (s, scores) = site.session().await;
        let first = scores.score("ann", 1);
        s.send_batch().unwrap();
        let second = scores.score("ann", &first);
        // The blocking claim waits for both batches.
        assert_eq!(second.claim().unwrap(), 2);
        assert_eq!(first.await.unwrap(), 1);
        s.abort().claim().unwrap();
        s.flush().unwrap();
        // A session whose calls wait is not awaited, and shared memory is not either.
        let waiting = connect(&site.url("shm")).unwrap();
        let scores: Scores = waiting.lookup("scores");
        let points = scores.player("ada").points();
        assert!(matches!((&points).await, Err(Error::Misuse(Misuse::NotAsynchronous))));
        assert_eq!(points.claim().unwrap(), 3);
        assert!(matches!(connect_async(&site.url("shm")).await, Err(ConnectError::NotAsynchronous)));
    });
}

#[test]
fn the_end_of_the_server_reaches_every_task() {
    let site = Site::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let (s, scores) = site.session().await;
        s.claim_async(scores.clone()).await.unwrap();
        let waiting = tokio::spawn({
            let s = s.clone();
            async move { s.wait(Duration::from_secs(60)).await }
        });
        tokio::task::yield_now().await;
        let others: Vec<_> = (0..10)
            .map(|_| {
                let scores = scores.clone();
                tokio::spawn(async move { scores.player("ada").points().await })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(100));
        let Site { server, folder } = site;
        drop(server);
        for task in others.into_iter() {
            // One may have crossed before the wait.
            assert!(matches!(task.await.unwrap(), Ok(3) | Err(Error::Closed(_))));
        }
        let _ = waiting.await.unwrap();
        assert!(matches!(scores.player("ada").points().await, Err(Error::Closed(_))));
        drop(folder);
    });
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("tcp://{}", listener.local_addr().unwrap());
    smol::block_on(async {
        let start = Instant::now();
        let builder = Session::builder(&INTERFACE).timeout(Duration::from_millis(200));
        let failed = builder.connect_async(&url).await;
        assert!(matches!(failed, Err(ConnectError::Closed(Closed::Connection(_)))), "{failed:?}");
        assert!(start.elapsed() < Duration::from_secs(20));
    });
}

#[test]
fn live_batches_are_streams() {
    let site = Site::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let watchers: Vec<_> = (0..20)
            .map(|_| {
                let url = site.url("unix");
                tokio::spawn(async move {
                    let (s, scores) = session(&url).await;
                    let players = scores.players();
                    let mut views = s.live({
                        let s = s.clone();
                        move || s.collect(players.values(), |player| (player.points(),))
                    });
                    loop {
                        let view = views.next_async().await.unwrap().unwrap();
                        if view.iter().map(|(points,)| points).sum::<i64>() == 3 + 4 * 15 {
                            return;
                        }
                    }
                })
            })
            .collect();
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let url = site.url("tcp");
                tokio::spawn(async move {
                    let (s, scores) = session(&url).await;
                    for _ in 0..15 {
                        let name = format!("player {writer}");
                        while let Err(error) =
                            s.transaction_async(How::default(), || scores.score(name.as_str(), 1)).await
                        {
                            assert!(error.is_conflict(), "{error}");
                        }
                    }
                })
            })
            .collect();
        for task in writers.into_iter().chain(watchers) {
            task.await.unwrap();
        }
    });
}
