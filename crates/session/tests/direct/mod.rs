//! Sessions in Rust over a repository: routines of a program are their calls.
#![allow(dead_code, reason = "each test uses a part")]

use std::sync::Arc;

use bifrost_cache::{Cache, NotCommitted, Options as CacheOptions, Schema, SchemaError};
use bifrost_engine::{Engine, Mode, Run};
use bifrost_repository::Repository;
use bifrost_runtime::cx::{Limits, Output};
use bifrost_runtime::{Collect, Cx};
use bifrost_theta::{Colour, Options, Sources, compile, render_all};

pub fn load(text: &str, mode: Mode) -> Arc<Engine> {
    let mut sources = Sources::new();
    sources.add("test.theta", text);
    let compilation = compile(&sources, &Options::default());
    let rendered = render_all(&sources, &compilation.diagnostics, Colour::Plain);
    let program = compilation.program.unwrap_or_else(|| panic!("{rendered}"));
    Engine::new(program, Run::kept(mode)).unwrap_or_else(|e| panic!("{e}"))
}

/// A session: routines of the program are its calls.
pub struct Session {
    pub engine: Arc<Engine>,
    pub cx: Box<Cx>,
    pub cache: Cache,
}

impl Session {
    pub fn open(engine: &Arc<Engine>, repository: &Arc<dyn Repository>, collect: Collect) -> Session {
        Session::try_open(engine, repository, collect).unwrap()
    }

    pub fn try_open(
        engine: &Arc<Engine>,
        repository: &Arc<dyn Repository>,
        collect: Collect,
    ) -> Result<Session, SchemaError> {
        Session::open_with(engine, repository, collect, &CacheOptions::default())
    }

    pub fn open_with(
        engine: &Arc<Engine>,
        repository: &Arc<dyn Repository>,
        collect: Collect,
        options: &CacheOptions,
    ) -> Result<Session, SchemaError> {
        let schema = Schema::new(engine.image().clone(), repository.clone())?;
        let limits = Limits { stack_bytes: 512 << 10, collect, ..Limits::default() };
        let mut cx = Cx::new(engine.image().clone(), limits, 1, || 0);
        cx.set_output(Output::Buffer(String::new()));
        let cache = Cache::open_with(&mut cx, schema, options);
        Ok(Session { engine: engine.clone(), cx, cache })
    }

    /// What a routine prints, or how it ends.
    pub fn run(&mut self, routine: &str) -> String {
        let entry = self.engine.find_entry(routine, 0).expect("there is such a routine");
        // SAFETY: the context runs the engine's image, and the routine takes nothing.
        match unsafe { self.engine.call(&mut self.cx, entry, &[]) } {
            Ok(_) => self.cx.take_output().trim_end().to_owned(),
            Err(raised) => raised.to_string(),
        }
    }

    pub fn commit(&mut self) -> Result<(), NotCommitted> {
        self.cache.commit(&mut self.cx, None).map(|_| ())
    }

    pub fn abort(&mut self) {
        self.cache.abort(&mut self.cx);
    }
}
