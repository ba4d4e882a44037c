//! [`Tap`]: an attacker on the path between a client and a server of datagrams. It keeps all that
//! pass, and forges others; a test decides what is done with each.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// The fate of a datagram: the ones that are sent on in its place.
pub type Fate = Box<dyn FnMut(Way, &[u8]) -> Vec<Vec<u8>> + Send>;

/// Datagrams in the order in which they passed.
type Seen = Vec<(Way, Vec<u8>)>;

/// The direction of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    ToServer,
    ToClient,
}

/// An attacker on the path, until it is dropped.
pub struct Tap {
    front: UdpSocket,
    back: UdpSocket,
    pub address: SocketAddr,
    client: Arc<Mutex<Option<SocketAddr>>>,
    seen: Arc<Mutex<Seen>>,
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Tap {
    /// Stands between one client and a server.
    pub fn start(server: SocketAddr, fate: Fate) -> Tap {
        let (front, back) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        back.connect(server).unwrap();
        for socket in [&front, &back] {
            socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        }
        let mut tap = Tap {
            address: front.local_addr().unwrap(),
            front,
            back,
            client: Arc::default(),
            seen: Arc::default(),
            ends: Arc::default(),
            threads: Vec::new(),
        };
        let fate = Arc::new(Mutex::new(fate));
        tap.threads = [Way::ToServer, Way::ToClient].map(|way| tap.carry(way, fate.clone())).into();
        tap
    }

    fn carry(&self, way: Way, fate: Arc<Mutex<Fate>>) -> JoinHandle<()> {
        let (front, back) = (self.front.try_clone().unwrap(), self.back.try_clone().unwrap());
        let (client, seen, ends) = (self.client.clone(), self.seen.clone(), self.ends.clone());
        std::thread::spawn(move || {
            let mut bytes = vec![0; 65_536];
            while !ends.load(Ordering::Relaxed) {
                let received = match way {
                    Way::ToServer => front.recv_from(&mut bytes).map(|(length, from)| {
                        *client.lock().unwrap() = Some(from);
                        length
                    }),
                    Way::ToClient => back.recv(&mut bytes),
                };
                // No datagram, or a peer that is gone.
                let Ok(length) = received else { continue };
                seen.lock().unwrap().push((way, bytes[..length].to_vec()));
                for datagram in fate.lock().unwrap()(way, &bytes[..length]) {
                    let to = *client.lock().unwrap();
                    let _ = match (way, to) {
                        (Way::ToServer, _) => back.send(&datagram),
                        (Way::ToClient, Some(to)) => front.send_to(&datagram, to),
                        (Way::ToClient, None) => Ok(0),
                    };
                }
            }
        })
    }

    /// Returns the datagrams of a direction that have passed.
    pub fn seen(&self, way: Way) -> Vec<Vec<u8>> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|(of, _)| *of == way).map(|(_, bytes)| bytes.clone()).collect()
    }

    /// Sends a datagram as if it came from the other side.
    pub fn forge(&self, way: Way, bytes: &[u8]) {
        let _ = match way {
            Way::ToServer => self.back.send(bytes),
            Way::ToClient => {
                let client = self.client.lock().unwrap().expect("a client");
                self.front.send_to(bytes, client)
            }
        };
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}
