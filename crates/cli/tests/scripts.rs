//! Clients without a library: scripts that speak the text form with answers in JSON.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Command;

use serde_json::{Value as Json, json};
use support::{Server, example, stderr, stdout};

/// A server of the database, over a unix socket and TCP.
fn server(arguments: &[&str]) -> Server {
    let listen = ["--listen", "unix://FOLDER/text", "--listen", "tcp://127.0.0.1:0"];
    Server::serve(&example("database"), &[&listen, arguments].concat())
}

/// The address of the server's TCP socket.
fn tcp(server: &Server) -> &str {
    let url = server.urls.iter().find_map(|url| url.strip_prefix("tcp://"));
    url.expect("it listens there")
}

/// Says lines to a server; its answers.
fn say(server: &Server, lines: &str) -> Vec<Json> {
    let mut stream = TcpStream::connect(tcp(server)).unwrap();
    stream.write_all(lines.as_bytes()).unwrap();
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.map(|line| serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
}

/// The output of a program.
fn run(program: &str, arguments: &[&str]) -> String {
    let folder = example("database").parent().unwrap().to_owned();
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    let output = output.unwrap_or_else(|e| panic!("{program}: {e}"));
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output).to_owned()
}

#[test]
fn a_client_in_python() {
    let server = server(&["--anonymous-loopback"]);
    let path = server.urls.iter().find_map(|url| url.strip_prefix("unix://")).unwrap();
    let said = run("python3", &["client.py", path]);
    let expected = "names: ['bob']\nann: 0 visits\nbob: 0 visits\neve: 0 visits\nnot_found\n\
                    not run: receiver is call 1\n";
    assert_eq!(said, expected);
}

#[test]
fn a_client_of_bash_and_jq() {
    let server = server(&["--anonymous-loopback"]);
    let (host, port) = tcp(&server).split_once(':').unwrap();
    let said = run("bash", &["client.sh", host, port]);
    assert_eq!(said, "[\"ann\",\"bob\",\"eve\"]\n0\n");
}

#[test]
fn answers_are_a_line_of_json_each() {
    let server = server(&["--anonymous-loopback"]);
    let answers = say(
        &server,
        "# a comment\nhello 2 json name \"me\"\n$db := lookup database: DataBase\n$bob := $db.fetch(\"b\\u006fb\")\n\
         $bob.frob()\n? $bob, \"\\ud83d\\ude00\\/\"\nlimits\n? $db.fetch(\"zoe\").name()\nhistory\nbye\n",
    );
    let bad = json!({"error": "BadLine", "line": 5, "column": 6,
        "text": "the type of the receiver is unknown before a `flush`"});
    assert_eq!(answers[0]["welcome"], 2);
    assert!(
        answers[1] == bad || answers[1]["line"] == 5 && answers[1]["error"] == "BadLine",
        "{}",
        answers[1]
    );
    assert_eq!(
        (&answers[2]["results"][0]["name"], &answers[2]["results"][0]["type"]),
        (&json!("$bob"), &json!("DataElem"))
    );
    assert_eq!(answers[2]["results"][1]["value"], "😀/");
    assert!(answers[3]["limits"]["rows_max"].is_u64(), "{}", answers[3]);
    assert_eq!(answers[4]["exceptions"][0]["signal"], "not_found");
    assert_eq!(answers[5]["history"].as_array().unwrap().len(), 2);
    assert_eq!(answers[6], json!({"bye": true}));
    assert_eq!(answers.len(), 7);
}

#[test]
fn refusals_are_told_in_the_form_in_which_they_were_asked() {
    let server = server(&["--token", "secret"]);
    let refused = say(&server, "hello 2 json\n");
    assert_eq!((&refused[0]["error"], refused.len()), (&json!("BadToken"), 1));
    let refused = say(&server, "hello 9 json token \"secret\"\n");
    assert_eq!(refused[0]["error"], "VersionMismatch");
    let full = self::server(&["--anonymous-loopback", "--set", "sessions_max=1"]);
    let _held = {
        let mut stream = TcpStream::connect(tcp(&full)).unwrap();
        stream.write_all(b"hello 2\n").unwrap();
        let mut line = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("welcome"), "{line}");
        stream
    };
    assert_eq!(say(&full, "hello 2 json\n")[0]["error"], "TooManySessions");
}
