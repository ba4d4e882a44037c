//! Imports a Debian package index into the objects of `examples/packages/packages.theta`, and asks them.
//!
//! `bifrost veneer examples/packages/packages.theta -o examples/packages/rust/src` made the stubs.

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, reason = "generated")]
mod bifrost_stubs;
mod index;

use std::error::Error;

use bifrost_stubs::{Package, PackageIndex, connect, package_list, package_set, signals};
use bifrost_veneer::{How, Session};
use index::{Paragraph, paragraphs};

/// How many packages are imported in one transaction.
const AT_ONCE: usize = 250;

const USAGE: &str = "packages-client import FILE | closure NAME | dependents NAME, with BIFROST_URL set to a server of packages.theta";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [command, argument] = &arguments[..] else { return Err(USAGE.into()) };
    let s = connect(&std::env::var("BIFROST_URL").map_err(|_| USAGE)?)?;
    let packages: PackageIndex = s.lookup("packages");
    match command.as_str() {
        "import" => import(&s, &packages, &std::fs::read_to_string(argument)?)?,
        "closure" => {
            let p = packages.package(argument.as_str());
            list(&s, &format!("{argument} needs"), |each| s.foreach(packages.closure(&p), each))?;
            by_hand(&s, &p)?;
        }
        "dependents" => {
            let p = packages.package(argument.as_str());
            list(&s, &format!("not without {argument}"), |each| s.foreach(packages.dependents(&p), each))?;
        }
        _ => return Err(USAGE.into()),
    }
    s.close()?;
    Ok(())
}

/// Imports an index, a few hundred packages in each transaction and each crossing.
fn import(s: &Session, packages: &PackageIndex, text: &str) -> Result<(), Box<dyn Error>> {
    let all: Vec<Paragraph> = paragraphs(text).collect();
    for some in all.chunks(AT_ONCE) {
        s.transaction(How::default(), || {
            for found in some {
                let name = found.name.as_str();
                // One name may stand twice, for two architectures: the first is taken.
                s.except(|| {
                    let (version, section) = (found.version.as_str(), found.section.as_str());
                    let p = packages.add(name, version, section, found.size);
                    for name in &found.provides {
                        packages.provide(&p, name.as_str());
                    }
                    for need in &found.needs {
                        packages.need(&p, need.join(" "));
                    }
                })
                .when::<signals::Exists>(|_| ());
            }
        })?;
    }
    let (length, c) = (packages.length().claim()?, s.counters());
    println!("{length} packages, {} calls in {} crossings", c.calls, c.crossings);
    Ok(())
}

/// Prints the packages of a loop: one crossing, whatever their number.
fn list(s: &Session, title: &str, run: impl FnOnce(&dyn Fn(Package))) -> Result<(), Box<dyn Error>> {
    let before = s.counters().crossings;
    let (names, count, size) = (s.cell_with::<String>(""), s.cell_with(0), s.cell_with(0));
    run(&|p: Package| {
        names.put(names.get() + " " + p.name());
        count.put(count.get() + 1);
        size.put(size.get() + p.size());
    });
    let (names, count, size) = (names.get(), count.get(), size.get());
    let mut sorted: Vec<String> = names.claim()?.split_whitespace().map(str::to_owned).collect();
    sorted.sort_unstable();
    println!("{title}: {}", sorted.join(" "));
    let crossings = s.counters().crossings - before;
    println!("{} packages, {} KiB, {crossings} crossing", count.claim()?, size.claim()?);
    Ok(())
}

/// The closure once more, by a client that has no method for it: the same walk as a batch, over the graph where it is.
fn by_hand(s: &Session, p: &Package) -> Result<(), Box<dyn Error>> {
    let before = s.counters().crossings;
    let (work, seen, unmet) = (package_list(s), package_set(s), s.cell_with(0));
    seen.store(p.name(), p);
    work.append(p);
    s.while_(
        || work.length().gt(0),
        || {
            let next = work.remove();
            s.foreach(next.needs(), |need| {
                s.except(|| {
                    let q = need.choice();
                    s.if_(seen.contains(q.name()), || ()).else_(|| {
                        seen.store(q.name(), &q);
                        work.append(&q);
                    });
                })
                .when::<signals::Unmet>(|_| {
                    unmet.put(unmet.get() + 1);
                });
            });
        },
    );
    let (count, unmet) = (seen.length(), unmet.get());
    println!(
        "as structures: {} packages, {} needs unmet, {} crossing",
        count.claim()?,
        unmet.claim()?,
        s.counters().crossings - before
    );
    Ok(())
}
