//! Makes thumbnails of pictures by the servers that a trader knows: `thumbnail -o DIR PICTURE...`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bifrost_veneer::{Service, ServiceError};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use thumbnails::bifrost_stubs::Thumbnails;

/// Make small copies of pictures by the servers of a service
#[derive(Parser, Debug)]
struct Args {
    /// Pictures in PNG, JPEG or PNM
    #[arg(required = true)]
    pictures: Vec<PathBuf>,
    /// The folder for the copies, which is made if it does not exist
    #[arg(short, long, default_value = "thumbnails")]
    output: PathBuf,
    /// The longer side of a copy, in pixels
    #[arg(long, default_value_t = 128)]
    side: i64,
    /// Pictures that are under way at the same time, each with a server of its own choice
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    at_once: u32,
    /// The service; without a host the traders are those in BIFROST_TRADER
    #[arg(long, default_value = "trader:///Thumbnails?prefer=spread")]
    service: String,
}

/// The tries of a picture: to make a copy twice does no harm, so a server may be lost on the way.
const TRIES: u32 = 5;

type Failed = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let args = Args::parse();
    if let Err(why) = std::fs::create_dir_all(&args.output) {
        eprintln!("error: cannot make the folder `{}`: {why}", args.output.display());
        return ExitCode::FAILURE;
    }
    // Hidden if the error stream is no terminal.
    let bar = ProgressBar::new(args.pictures.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    let next = AtomicUsize::new(0);
    let failed = AtomicUsize::new(0);
    let made: Mutex<BTreeMap<String, u64>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..args.at_once.min(args.pictures.len() as u32) {
            scope.spawn(|| {
                let mut service = Service::<Thumbnails>::new(&args.service);
                while let Some(picture) = args.pictures.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let line = match make(&mut service, picture, &args) {
                        Ok((server, line)) => {
                            if let Ok(mut made) = made.lock() {
                                *made.entry(server).or_default() += 1;
                            }
                            line
                        }
                        Err(why) => {
                            failed.fetch_add(1, Ordering::Relaxed);
                            format!("{}: error: {why}", picture.display())
                        }
                    };
                    bar.suspend(|| println!("{line}"));
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    for (server, count) in made.into_inner().unwrap_or_default() {
        eprintln!("{count} by {server}");
    }
    match failed.into_inner() {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Makes the copy of a picture. Returns the server, and a line for the user.
fn make(service: &mut Service<Thumbnails>, picture: &Path, args: &Args) -> Result<(String, String), Failed> {
    let bytes = std::fs::read(picture)?;
    let mut tries = 1;
    let (width, height, png) = loop {
        let answer = service.run(|_, thumbnails| {
            let small = thumbnails.shrink(&bytes[..], args.side);
            // One crossing: all is asked for before the first claim.
            let (width, height, png) = (small.width(), small.height(), small.png());
            Ok((width.claim()?, height.claim()?, png.claim()?))
        });
        match answer {
            Ok(answer) => break answer,
            Err(ServiceError::Lost { .. }) if tries < TRIES => tries += 1,
            Err(why) => return Err(why.into()),
        }
    };
    let name = picture.file_stem().ok_or("this is no name of a file")?;
    let file = args.output.join(name).with_extension("png");
    std::fs::write(&file, &png[..])?;
    let server = service.server().map_or_else(String::new, |server| server.address().to_owned());
    Ok((server, format!("{}: {width} x {height}, {}", picture.display(), file.display())))
}
