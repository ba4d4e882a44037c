//! Both modules are built, and the client finds the same cost in all forms with a server.

use std::path::Path;
use std::process::Command;

use bifrost_engine::{Mode, Run};
use bifrost_server::{Config, Server, program};

const FORMS: [&str; 7] =
    ["client loop", "batch", "structure", "procedure", "Theta method", "module in Rust", "module in C"];

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_forms_have_the_same_result() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let temporary = tempfile::tempdir().unwrap();
    let modules = temporary.path().join("modules");
    output(Command::new(folder.join("../build.sh")).arg(&modules));
    let url = format!("unix://{}/book", temporary.path().display());
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let theta = folder.join("../sandbox.theta");
        let engine = program::load(&[theta], None, Run::kept(mode)).unwrap_or_else(|e| panic!("{e}"));
        let mut config = Config { listen: vec![url.clone()], ..Config::default() };
        config.limits.insert("modules_max".to_owned(), 8);
        let server = Server::start(engine, &config).unwrap();
        let mut client = Command::new(env!("CARGO_BIN_EXE_sandbox-client"));
        let said = output(client.arg(&modules).env("BIFROST_URL", &url));
        drop(server);
        check(&said);
    }
}

/// Compares the rows of the table with each other, and with the purpose of each form.
fn check(said: &str) {
    let row = |form: &str| -> Vec<u64> {
        let rest = said.lines().find_map(|line| line.strip_prefix(form));
        let words = rest.unwrap_or_else(|| panic!("no row `{form}` in\n{said}")).split_whitespace();
        words.map(|word| word.parse().unwrap()).collect()
    };
    let rows = FORMS.map(row);
    // So much do 300 shares cost, by the method of `sandbox.theta`.
    assert!(rows.iter().all(|row| row[0] == rows[4][0] && row[0] > 0), "{said}");
    let [alone, batch, structure, procedure, method, in_rust, in_c] = &rows;
    assert!(alone[1] > 100, "{said}");
    assert_eq!(batch[1], 2, "{said}");
    for row in [structure, procedure, method, in_rust, in_c] {
        assert_eq!(row[1], 1, "{said}");
    }
    // A structure is sent each time, procedures and modules once.
    assert!(structure[3] > 4 * procedure[3], "{said}");
    for row in [procedure, in_rust, in_c] {
        assert!(row[3] < row[2] && row[3] < 300, "{said}");
    }
    for module in ["Rust", "C"] {
        let line =
            said.lines().find(|line| line.starts_with(&format!("-1 shares, by the module in {module}: ")));
        assert!(line.is_some_and(|line| line.contains("the number of shares is negative")), "{said}");
        assert!(said.contains(&format!("offer 1000, by the module in {module}: bounds\n")), "{said}");
    }
}
