//! Runs `filetests/*.bir`: each file in the interpreter and as machine code, with the same expectations.
//!
//! ```text
//! ; run: name(arguments) == results
//! ; run: name(arguments) signals exception(values)
//! ; run: name(arguments) killed
//! ; run compiled: name(arguments) ...
//! ; verify: message
//! ```
//!
//! The interpreter runs them a second time with all loops over built-in iterators written without these ([`bifrost_ir::resumable`]).
//!
//! A file with `verify:` lines must be refused with exactly these messages; any other must be accepted, read back as
//! printed, and compile without help of the interpreter. `killed` stops the run from another thread.
//! `BIFROST_FILETEST=part` runs only files whose name contains the part, `BIFROST_EMIT=clif` or `asm` prints
//! their code.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bifrost_interp::Interp;
use bifrost_ir::resumable::all_loops_without_iterators;
use bifrost_ir::text::{parse, print_program};
use bifrost_ir::verify::{verify_func, verify_program};
use bifrost_ir::{Program, TypeId, TypeKind, Types};
use bifrost_jit::{Emit, Jit};
use bifrost_runtime::abi::{Outcome, Word};
use bifrost_runtime::{Collect, Cx, Image, Kill, Limits, invoke, object};

#[test]
fn filetests() {
    // Recursion to the limit needs more stack than a test's thread has.
    let run = || {
        let wanted = std::env::var("BIFROST_FILETEST").unwrap_or_default();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests");
        let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
            .expect("the folder of filetests")
            .map(|entry| entry.expect("a readable folder").path())
            .filter(|path| path.extension().is_some_and(|e| e == "bir"))
            .filter(|path| path.to_string_lossy().contains(&wanted))
            .collect();
        files.sort();
        assert!(!files.is_empty());
        let mistakes: Vec<String> = files.iter().flat_map(|file| check_file(file)).collect();
        assert!(mistakes.is_empty(), "\n{}", mistakes.join("\n"));
    };
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(run).expect("a thread");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// What went wrong in a file, as `file:line: ...`.
fn check_file(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("a readable file");
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = match parse(&text) {
        Ok(file) => file,
        Err(e) => return vec![format!("{name}:{}: {}", e.line, e.message)],
    };
    let mut found: Vec<String> =
        verify_program(&file.program).err().unwrap_or_default().iter().map(|e| e.error.to_string()).collect();
    for batch in &file.batches {
        found.extend(
            verify_func(&file.program, batch).err().unwrap_or_default().iter().map(ToString::to_string),
        );
    }
    let expected: Vec<&str> = directives(&text, "; verify: ").map(|(_, t)| t).collect();
    if found != expected {
        return vec![format!("{name}: verifying:\n  found {found:#?}\n  expected {expected:#?}")];
    }
    if !found.is_empty() {
        return Vec::new();
    }
    let printed = print_program(&file.program);
    match parse(&printed) {
        Ok(again) if print_program(&again.program) == printed => {}
        Ok(_) => return vec![format!("{name}: reads back differently:\n{printed}")],
        Err(e) => return vec![format!("{name}: does not read back: {e}\n{printed}")],
    }

    let interpreted = bifrost_runtime::link(file.program.clone(), None).expect("linking");
    let _interp = Interp::new(interpreted.clone());
    let resumable = bifrost_runtime::link(without_iterators(&file.program), None).expect("linking");
    let _interp = Interp::new(resumable.clone());
    let jit = Arc::new(Jit::new().expect("a compiler for this machine"));
    let compiled = bifrost_runtime::link(file.program, Some(jit.clone())).expect("linking");
    let _interp = Interp::new(compiled.clone());
    let mut mistakes = Vec::new();
    let emit = match std::env::var("BIFROST_EMIT").as_deref() {
        Ok("clif") => Some(Emit::Clif),
        Ok("asm") => Some(Emit::Assembly),
        _ => None,
    };
    for func in compiled.program().funcs.keys() {
        if let Some(emit) = emit {
            println!("{}", jit.text(&compiled, func, emit).expect("text of code"));
        }
        if let Err(e) = jit.text(&compiled, func, Emit::Assembly) {
            mistakes.push(format!("{name}: `{}` does not compile: {e}", compiled.program().funcs[func].name));
        }
    }
    let both = directives(&text, "; run: ").map(|(line, d)| (line, d, true));
    let one = directives(&text, "; run compiled: ").map(|(line, d)| (line, d, false));
    for (line, directive, both) in both.chain(one) {
        // Each way once as usual, and once with a collection at every allocation.
        let ways = [
            ("interpreted", &interpreted, Collect::Checked),
            ("interpreted with zeal", &interpreted, Collect::Zeal(1)),
            ("interpreted without iterators", &resumable, Collect::Zeal(1)),
            ("compiled", &compiled, Collect::Checked),
            ("compiled with zeal", &compiled, Collect::Zeal(1)),
        ];
        for (engine, image, collect) in ways {
            if engine.starts_with("interpreted") && !both {
                continue;
            }
            match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(image, directive, collect))) {
                Ok(Ok(())) => {}
                Ok(Err(e)) => mistakes.push(format!("{name}:{line}: {engine}: {directive}: {e}")),
                Err(_) => mistakes.push(format!("{name}:{line}: {engine}: {directive}: panicked")),
            }
        }
    }
    mistakes
}

/// The program with the loops over built-in iterators written without these.
fn without_iterators(program: &Program) -> Program {
    let mut program = program.clone();
    for id in program.funcs.keys() {
        let mut func = program.funcs[id].clone();
        all_loops_without_iterators(&mut program, &mut func);
        program.funcs[id] = func;
    }
    if let Err(errors) = verify_program(&program) {
        panic!("without iterators: {}\n{}", errors[0], print_program(&program));
    }
    program
}

fn directives<'t>(text: &'t str, prefix: &'static str) -> impl Iterator<Item = (usize, &'t str)> {
    text.lines().enumerate().filter_map(move |(i, line)| Some((i + 1, line.strip_prefix(prefix)?.trim())))
}

/// Runs one line.
fn run(image: &Arc<Image>, directive: &str, collect: Collect) -> Result<(), String> {
    let (call, expected) = match directive.split_once(" == ") {
        Some((call, expected)) => (call, expected.to_owned()),
        None => match directive.split_once(" signals ") {
            Some((call, signal)) => (call, format!("signals {signal}")),
            None => match directive.strip_suffix(" killed") {
                Some(call) => (call, "killed".to_owned()),
                None => (directive, String::new()),
            },
        },
    };
    let (name, arguments) = call.split_once('(').ok_or("`(` expected")?;
    let arguments = arguments.strip_suffix(')').ok_or("`)` expected")?;
    let program = image.program();
    let routine = program.find_routine(name).ok_or_else(|| format!("no routine `{name}`"))?;
    let signature = &program.routines[routine].signature;

    // What fills the heap with zeal would take for ever.
    let batch_heap_bytes = if collect == Collect::Checked { 64 << 20 } else { 256 << 10 };
    let limits = Limits { collect, batch_heap_bytes, ..Limits::default() };
    let mut cx = Cx::new(image.clone(), limits, 1, || 0);
    let mut words: Vec<Word> = vec![0];
    let mut kept = Vec::new();
    let types: Vec<TypeId> = signature.params.iter().map(|p| p.ty).collect();
    for (text, ty) in split(arguments).iter().zip(&types) {
        let word = value(&mut cx, program, *ty, text)?;
        words.push(word);
        kept.extend(image.is_reference(*ty).then(|| cx.keep(word)));
    }
    if words.len() != 1 + types.len() {
        return Err(format!("{} arguments expected", types.len()));
    }
    cx.begin();
    let done = Arc::new(AtomicBool::new(false));
    let killer = (expected == "killed").then(|| {
        let (poll, epoch, done) = (cx.poll().clone(), cx.poll().epoch(), done.clone());
        std::thread::spawn(move || {
            // Again and again, so that it does not matter when the run gets under way.
            while !done.load(Ordering::Relaxed) {
                poll.kill(epoch, Kill::Time);
                std::thread::yield_now();
            }
        })
    });
    // SAFETY: the context was made for this image, and the words have the types of the heading.
    let ret = unsafe { invoke::routine(&mut *cx, image.routine(routine), &mut words) };
    done.store(true, Ordering::Relaxed);
    if let Some(killer) = killer {
        killer.join().map_err(|_| "the killer panicked")?;
    }
    cx.leave();
    let found = match ret.outcome() {
        Outcome::Returned => {
            let results = &signature.results;
            let mut texts = Vec::new();
            for (i, ty) in results.iter().enumerate() {
                let word = if i == 0 { ret.value } else { cx.results[i] };
                texts.push(show(program, *ty, word));
            }
            texts.join(", ")
        }
        Outcome::Signalled => {
            let id = cx.signalled();
            let types = match signature.signal(id) {
                Some(s) => s.values.clone(),
                None => vec![Types::STRING],
            };
            let values: Vec<String> =
                types.iter().zip(cx.signal_values).map(|(ty, w)| show(program, *ty, w)).collect();
            let values = if values.is_empty() { String::new() } else { format!("({})", values.join(", ")) };
            format!("signals {}{values}", program.types.signal_name(id))
        }
        Outcome::Killed => "killed".to_owned(),
        other => format!("outcome {other:?}"),
    };
    if found == expected { Ok(()) } else { Err(format!("found `{found}`")) }
}

fn split(list: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let (mut part, mut quoted) = (String::new(), false);
    for c in list.chars() {
        quoted ^= c == '"';
        if c == ',' && !quoted {
            parts.push(std::mem::take(&mut part).trim().to_owned());
        } else {
            part.push(c);
        }
    }
    if !part.trim().is_empty() {
        parts.push(part.trim().to_owned());
    }
    parts
}

fn value(cx: &mut Cx, program: &Program, ty: TypeId, text: &str) -> Result<Word, String> {
    let wrong = || format!("`{text}` is no `{}`", program.types.name(ty));
    Ok(match program.types.kind(ty) {
        TypeKind::Int if text == "min" => i64::MIN as Word,
        TypeKind::Int if text == "max" => i64::MAX as Word,
        TypeKind::Int => text.parse::<i64>().map_err(|_| wrong())? as Word,
        TypeKind::Real => text.parse::<f64>().map_err(|_| wrong())?.to_bits(),
        TypeKind::Bool => Word::from(text == "true"),
        TypeKind::Char => Word::from(u32::from(text.trim_matches('\'').chars().next().ok_or_else(wrong)?)),
        TypeKind::Null => 0,
        TypeKind::String => cx.new_string(text.trim_matches('"')).map_err(|e| e.to_string())?,
        _ => return Err(wrong()),
    })
}

fn show(program: &Program, ty: TypeId, word: Word) -> String {
    match program.types.kind(ty) {
        TypeKind::Int if word as i64 == i64::MIN => "min".to_owned(),
        TypeKind::Int if word as i64 == i64::MAX => "max".to_owned(),
        TypeKind::Int => (word as i64).to_string(),
        TypeKind::Real => format!("{:?}", f64::from_bits(word)),
        TypeKind::Bool if word > 1 => format!("bad truth value {word}"),
        TypeKind::Bool => (word == 1).to_string(),
        TypeKind::Char => format!("{:?}", char::from_u32(word as u32)).replace("Some(", "").replace(')', ""),
        TypeKind::Null => "nil".to_owned(),
        // SAFETY: the word is of a string type.
        TypeKind::String => format!("{:?}", unsafe { object::text(word) }),
        _ => "object".to_owned(),
    }
}
