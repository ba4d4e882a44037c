// What has no meaning at the server is refused where it stands.

use bifrost_veneer::remote;

#[remote]
fn matched(n: i64) -> i64 {
    match n {
        _ => n,
    }
}

#[remote]
fn asked(n: i64) -> i64 {
    n.unparse()?.length()
}

#[remote]
fn assigned(n: i64) -> i64 {
    n += 1;
    n
}

#[remote]
fn labelled(n: i64) -> i64 {
    'outer: while n > 0 {
        break 'outer;
    }
    n
}

#[remote]
fn closed(n: i64) -> i64 {
    n.to(|| 3)
}

#[remote]
fn printed(n: i64) {
    println!("{n}");
}

#[remote]
async fn awaited() {}

#[remote]
fn generic<T>(n: T) {}

#[remote(once)]
fn attributed() {}

#[remote]
fn wrongly_typed(n: i64) -> String {
    n + 1
}

#[remote]
fn compared(n: i64) -> bool {
    n == "one"
}

fn main() {}
