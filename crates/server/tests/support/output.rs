//! What programs print.

use std::sync::Arc;

use bifrost_engine::Engine;
use bifrost_runtime::{Collect, Limits};
use bifrost_server::Space;

/// What `main` prints, and the exception that it ends with, if it does. It may take the arguments of a program, of which
/// there are none.
pub fn output(engine: &Arc<Engine>, collect: Collect) -> String {
    let plain = engine.find_entry("main", 0);
    let main = plain.or_else(|| engine.find_entry("main", 1)).expect("a program has `main`");
    let limits = Limits { collect, ..Limits::default() };
    let space = Space::new(engine.clone(), limits).expect("there is memory for a heap");
    space.capture_output();
    space
        .on_stack(|| {
            let mut cx = space.lock();
            let mut arguments = vec![];
            if plain.is_none() {
                arguments.push(engine.arguments(&mut cx, &[]).expect("room for an empty sequence"));
            }
            // SAFETY: the context runs this engine's image, and `main` takes the arguments.
            if let Err(raised) = unsafe { engine.call(&mut cx, main, &arguments) } {
                cx.print(&raised.to_string());
            }
            cx.take_output()
        })
        .expect("there is memory for a stack")
}
