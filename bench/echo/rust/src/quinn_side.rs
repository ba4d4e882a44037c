//! quinn with a runtime of one thread.

use std::io::BufRead;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use quinn::{Connection, Endpoint, RecvStream, SendStream, ServerConfig, TokioRuntime};
use tokio::runtime::{Builder, Runtime};

use crate::message::{self, Answers, Failed, HEAD, Head, Order, Turn, order, say};
use crate::settings::{self, Tuning};

fn runtime() -> Result<Runtime, Failed> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

fn endpoint(at: SocketAddr, server: Option<ServerConfig>, tuning: Tuning) -> Result<Endpoint, Failed> {
    let socket = UdpSocket::bind(at)?;
    Ok(Endpoint::new(tuning.endpoint()?, server, socket, Arc::new(TokioRuntime))?)
}

/// Reads a message, whose bytes replace what is in `bytes`.
async fn read(stream: &mut RecvStream, bytes: &mut Vec<u8>) -> Result<Head, Failed> {
    let mut start = [0; HEAD];
    stream.read_exact(&mut start).await?;
    let head = message::head(&start)?.ok_or("a head is short")?;
    bytes.resize(head.follow, 0);
    stream.read_exact(bytes).await?;
    Ok(head)
}

/// Runs the server: one client, one stream.
///
/// # Errors
/// The connection is lost.
pub fn serve(address: &str, tuning: Tuning) -> Result<(), Failed> {
    runtime()?.block_on(async {
        let (config, digits) = settings::server(tuning)?;
        let endpoint = endpoint(address.parse()?, Some(config), tuning)?;
        say(&format!("ready {}#{digits}", endpoint.local_addr()?))?;
        let connection = endpoint.accept().await.ok_or("the endpoint is closed")?.await?;
        let counted = connection.clone();
        message::answer_counts(move || Some(counted.stats().udp_tx.datagrams));
        let (mut send, mut receive) = connection.accept_bi().await?;
        let (answers, mut bytes, mut answer) = (Answers::new(), Vec::new(), Vec::new());
        loop {
            let head = read(&mut receive, &mut bytes).await?;
            answers.answer(head, &bytes, &mut answer)?;
            send.write_all(&answer).await?;
        }
    })
}

/// A client: its connection and its stream.
struct Client {
    connection: Connection,
    send: SendStream,
    receive: RecvStream,
    message: Vec<u8>,
    bytes: Vec<u8>,
}

impl Client {
    async fn exchange(&mut self, turn: &mut Turn) -> Result<(), Failed> {
        turn.begin();
        self.send.write_all(&self.message).await?;
        read(&mut self.receive, &mut self.bytes).await?;
        turn.end(&self.bytes)
    }

    /// Follows an order, and returns the answer to it.
    async fn follow(&mut self, order: Order) -> Result<String, Failed> {
        let (received, exchanges) = order.write(&mut self.message);
        let before = self.connection.stats().udp_tx.datagrams;
        let mut turn = Turn::new(received);
        for _ in 0..exchanges {
            self.exchange(&mut turn).await?;
        }
        Ok(match order {
            Order::Check => "checked".to_owned(),
            Order::Turn { .. } => turn.line(Some(self.connection.stats().udp_tx.datagrams - before)),
        })
    }
}

/// Runs the client.
///
/// # Errors
/// The connection is lost, or an answer is wrong.
pub fn client(place: &str, tuning: Tuning) -> Result<(), Failed> {
    let (peer, config) = settings::client(place, tuning)?;
    let (lines, mut orders) = tokio::sync::mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    });
    runtime()?.block_on(async {
        let endpoint = endpoint(settings::local(peer), None, tuning)?;
        let connection = endpoint.connect_with(config, peer, settings::NAME)?.await?;
        let (send, receive) = connection.open_bi().await?;
        let mut client = Client { connection, send, receive, message: Vec::new(), bytes: Vec::new() };
        say("ready")?;
        while let Some(line) = orders.recv().await {
            say(&client.follow(order(&line)?).await?)?;
        }
        Ok(())
    })
}
