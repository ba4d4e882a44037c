//! Crossings over TLS and websockets beside plain TCP.
//!
//! The samples of all streams alternate, so that other work of the machine meets all alike.
//! [`measure`] gives the time of a pair of crossings with one null call over each stream, and the
//! ratios to TCP.

use bifrost_veneer::Session;
use indicatif::ProgressBar;

use super::super::bifrost_stubs::{self as stubs, Probe};
use super::super::common::Failed;
use super::super::report::{Case, Target, ratio};
use super::batches::batch;
use super::measure::Effort;

/// Crossings in each sample, whose mean is the sample.
const CROSSINGS: usize = 16;

/// A stream beside TCP: its name, its server, and the most that a crossing may take of that of TCP.
pub struct Beside<'u> {
    /// The name in the report.
    pub name: &'static str,
    /// The address of the server.
    pub url: &'u str,
    /// The most that the ratio may be.
    pub most: f64,
}

struct Client {
    session: Session,
    probe: Probe,
    samples: Vec<f64>,
}

impl Client {
    fn connect(url: &str) -> Result<Client, Failed> {
        let session = stubs::connect(url)?;
        let probe = session.lookup("probe");
        session.flush()?;
        Ok(Client { session, probe, samples: Vec::new() })
    }

    fn sample(&mut self) -> Result<(), Failed> {
        let mut sum = 0.0;
        for _ in 0..CROSSINGS {
            sum += batch(&self.session, &self.probe, 1)?.0;
        }
        self.samples.push(sum / CROSSINGS as f64 / 1e3);
        Ok(())
    }
}

/// Measures a pair of crossings over TCP and over other streams.
///
/// # Errors
/// A session ends.
pub fn measure(
    tcp: &str,
    beside: &[Beside<'_>],
    effort: Effort,
    bar: &ProgressBar,
) -> Result<(Vec<Case>, Vec<Target>), Failed> {
    let mut plain = Client::connect(tcp)?;
    let others: Result<Vec<Client>, Failed> = beside.iter().map(|one| Client::connect(one.url)).collect();
    let mut others = others?;
    for _ in 0..effort.samples {
        plain.sample()?;
        others.iter_mut().try_for_each(Client::sample)?;
        bar.inc(1);
    }
    let case = |name: &str, client: &mut Client| {
        Case::new(format!("a pair of crossings over {name}"), 1, "us", &mut client.samples).crossed(1, 1)
    };
    let tcp = case("tcp", &mut plain);
    let (mut cases, mut targets) = (Vec::new(), Vec::new());
    for (one, client) in beside.iter().zip(&mut others) {
        let measured = case(one.name, client);
        let text = |which: &str| format!("a pair of crossings over {} / over tcp{which}", one.name);
        targets.push(Target::new(text(""), ratio(measured.value, tcp.value), one.most, "x"));
        targets.push(Target::new(text(", least values"), ratio(measured.min, tcp.min), one.most, "x"));
        cases.push(measured);
    }
    cases.insert(0, tcp);
    plain.session.close()?;
    for client in others {
        client.session.close()?;
    }
    Ok((cases, targets))
}
