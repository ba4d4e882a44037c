//! Imports to be awaited, and services that go on when their servers are lost.

mod site;

use std::path::Path;
use std::time::{Duration, Instant};

use bifrost_engine::{Mode, Run};
use bifrost_native::Registry;
use bifrost_server::trader::{TraderSettings, with_trader};
use bifrost_server::{Config, Server, program};
use bifrost_theta::{Options, Sources};
use bifrost_veneer::trader::stubs::{self, Lease, Trader};
use bifrost_veneer::{Ran, Service, Session, import_async};
use scores_tasks::bifrost_stubs::{INTERFACE, Scores};
use site::Site;

/// Starts a trader that lists offers without a proof.
fn trader(folder: &Path) -> Server {
    let settings = TraderSettings { trusts_addresses: true, ..TraderSettings::default() };
    let registry = with_trader(Registry::standard()).with(settings);
    let mut sources = Sources::new();
    sources.add("trader.theta", bifrost_trader::PROGRAM);
    let run = Run::kept(Mode::Interpreted);
    let engine = program::load_sources_with(sources, &Options::default(), run, &registry);
    let listen = vec![format!("unix://{}/trader", folder.display())];
    let config = Config { listen, ..Config::default() };
    Server::start(engine.unwrap_or_else(|error| panic!("{error}")), &config).unwrap()
}

/// Exports the scores of sites in this order, with all their addresses.
fn export(trader: &Server, sites: &[&Site], store: &str) -> (Session, Vec<Lease>) {
    let address = trader.addresses()[0].to_string();
    let session = Session::builder(&stubs::INTERFACE).connect(&address).unwrap();
    let trader: Trader = session.lookup("trader");
    let digest = trader.teach(INTERFACE.json).claim().unwrap();
    let host = bifrost_transport::host().unwrap();
    let mut leases = Vec::new();
    for (number, site) in sites.iter().enumerate() {
        let addresses = ["shm", "tls", "unix"].map(|scheme| site.url(scheme));
        let properties = format!("number={number}&host={host}&store={store}");
        let lease = trader.advertise("Scores", &digest, "scores", &addresses, properties, 60_000);
        session.resolve(&lease).unwrap();
        leases.push(lease);
    }
    (session, leases)
}

fn url(trader: &Server) -> String {
    format!("trader+{}?service=Scores&prefer=min(number)", trader.addresses()[0])
}

#[test]
fn an_import_is_awaited() {
    let site = Site::start();
    let trader = trader(site.folder.path());
    let (_session, _leases) = export(&trader, &[&site], "one");
    smol::block_on(async {
        let (session, scores) = import_async::<Scores>(&url(&trader)).await.unwrap();
        // Shared memory cannot be awaited.
        assert_eq!(session.service().unwrap().address(), site.url("unix"));
        assert_eq!(scores.score("ann", 3).await.unwrap(), 3);
        session.commit_async().await.unwrap();
        let builder = Session::builder(&INTERFACE);
        let session = builder.connect_async(&url(&trader)).await.unwrap();
        let scores: Scores = session.lookup(session.service().unwrap().name());
        assert_eq!(scores.score("ann", 0).await.unwrap(), 3);
        let none = format!("{}&number=7", url(&trader));
        let builder = Session::builder(&INTERFACE).timeout(Duration::from_millis(300));
        let why = builder.connect_async(&none).await.unwrap_err().to_string();
        assert!(why.contains("no trader knows an offer that matches"), "{why}");
    });
    let why = bifrost_veneer::import::<Scores>("trader://host").unwrap_err().to_string();
    assert!(why.contains("names no service"), "{why}");
}

#[test]
fn a_service_goes_on_with_another_server() {
    let mut sites = [Site::start(), Site::start()];
    let trader = trader(sites[0].folder.path());
    let (_session, _leases) = export(&trader, &[&sites[0], &sites[1]], "one");
    let unix = sites.each_ref().map(|site| site.url("unix"));
    let address = |service: &Service<Scores>| service.server().unwrap().address().to_owned();
    let mut service: Service<Scores> = Service::new(url(&trader));
    smol::block_on(async {
        let run = service.run_async(|_, scores| async move { scores.score("ann", 1).await });
        assert_eq!(run.await.unwrap(), 1);
        assert_eq!(address(&service), unix[0]);
        // A failure of the body is not committed by the next run.
        let failed = service.run_async(|_, scores| async move {
            scores.score("ann", 1).await?;
            scores.player("nobody").points().await
        });
        assert_eq!(failed.await.unwrap_err().ran(), Ran::Began);
        let named = service.run_named_async(|_, scores| scores.score("ann", 5)).await.unwrap();
        assert_eq!(named.claim().unwrap(), 5, "the run before was not committed, and the failed one aborted");
        sites[0].server.stop();
        let start = Instant::now();
        let named = service.run_named_async(|_, scores| scores.score("ann", 7)).await.unwrap();
        assert_eq!(named.claim().unwrap(), 7, "the other server has objects of its own");
        assert_eq!(address(&service), unix[1]);
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        // The same service, in a thread that may wait.
        assert_eq!(service.run(|_, scores| scores.score("ann", 0).claim()).unwrap(), 7);
    });
    fn is_movable<T: Send>(_: &T) {}
    is_movable(&service);
    is_movable(&service.run_async(|session, _| async move { session.flush_async().await }));
}
