//! `std.http`: requests of programs to the hosts that are allowed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;

/// A server that answers so many requests: with their first line and body, by their path.
fn server(requests: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(requests) {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut first, mut length) = (String::new(), 0);
            stream.read_line(&mut first).unwrap();
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                if let Some(count) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = count.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let path = first.split(' ').nth(1).unwrap();
            let (head, answer) = match path {
                "/gone" => ("404 Not Found\r\n", b"gone".to_vec()),
                "/elsewhere" => ("302 Found\r\nLocation: http://other.example/\r\n", vec![]),
                "/large" => ("200 OK\r\n", vec![b'x'; (16 << 20) + 1]),
                _ => (
                    "200 OK\r\nContent-Type: text/plain\r\n",
                    [first.trim().as_bytes(), b" ", &body].concat(),
                ),
            };
            let head =
                format!("HTTP/1.1 {head}Content-Length: {}\r\nConnection: close\r\n\r\n", answer.len());
            let _ = stream.get_mut().write_all(&[head.as_bytes(), &answer].concat());
        }
    });
    address
}

fn run(program: &str, arguments: &[&str]) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("client.theta");
    std::fs::write(&file, program).unwrap();
    let mut bifrost = Command::new(env!("CARGO_BIN_EXE_bifrost"));
    let output = bifrost.arg("run").args(arguments).arg(&file).output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn requests_reach_the_hosts_that_are_allowed() {
    let address = server(5);
    let program = format!(
        "import std.http (Http, Answer)
show (a: Answer) print(a.status.unparse() || \" \" || a.kind || \" \" || a.body.to_string()) end show
main ()
  h: Http := Http.new()
  show(h.get(\"http://{address}/a\"))
  show(h.post(\"http://{address}/b\", \"text/plain\", \"hello\".to_bytes()))
  show(h.get(\"http://{address}/gone\"))
  show(h.get(\"http://{address}/elsewhere\"))
  begin
    show(h.get(\"http://{address}/large\"))
  end except when not_possible (why: string): print(\"too large\") end
  begin
    show(h.get(\"http://other.example/\"))
  end except when refused (why: string): print(why) end
  begin
    show(h.get(\"no url\"))
  end except when not_possible (why: string): print(why) end
end main"
    );
    let (said, noted) = run(&program, &["--allow-http", &address.to_string()]);
    let wanted = "200 text/plain GET /a HTTP/1.1 \n200 text/plain POST /b HTTP/1.1 hello\n404  gone\n302  \n\
        too large\n`other.example` is not among the hosts of --allow-http\n`no url` is not a URL\n";
    assert_eq!(said, wanted, "{noted}");
}

#[test]
fn without_the_argument_no_host_is_reached() {
    let program = "import std.http (Http, Answer)
main ()
  h: Http := Http.new()
  begin
    a: Answer := h.get(\"http://127.0.0.1:1/\")
    print(a.status.unparse())
  end except when refused (why: string): print(\"refused\") end
end main";
    assert_eq!(run(program, &[]).0, "refused\n");
}
