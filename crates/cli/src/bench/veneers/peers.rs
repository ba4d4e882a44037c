//! The peers: gRPC, the systems that pipeline calls, and Redis. `bench/veneers` has their programs.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::super::common::Failed;
use super::super::process::Program;
use super::subject::{Client, Subject};

/// The longest time in which a server of a peer must be ready.
const READY_MAX: Duration = Duration::from_secs(30);

/// Another system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// gRPC for C++
    Grpc,
    /// Cap'n Proto for C++
    Capnp,
    /// gRPC for Python
    Grpcio,
    /// Cap'n Proto for Python
    Pycapnp,
    /// gRPC for Node
    GrpcJs,
    /// Cap'n Web in Node
    Capnweb,
    /// gRPC for Java
    GrpcJava,
    /// gRPC for Go
    GrpcGo,
    /// Redis, by its client for Perl
    RedisPerl,
    /// Redis, by a client in Tcl
    RedisTcl,
    /// Redis, by a client in Emacs Lisp
    RedisElisp,
}

impl Peer {
    /// Returns its name in tables, which is that of its program too.
    pub fn name(self) -> &'static str {
        match self {
            Peer::Grpc => "grpc",
            Peer::Capnp => "capnp",
            Peer::Grpcio => "grpcio",
            Peer::Pycapnp => "pycapnp",
            Peer::GrpcJs => "grpc-js",
            Peer::Capnweb => "capnweb",
            Peer::GrpcJava => "grpc-java",
            Peer::GrpcGo => "grpc-go",
            Peer::RedisPerl => "redis-perl",
            Peer::RedisTcl => "redis-tcl",
            Peer::RedisElisp => "redis-elisp",
        }
    }

    /// Returns the peer whose program is its server: one in C++, if there is one. That of Go needs
    /// no library of C++, and is as fast.
    fn server(self) -> Peer {
        match self {
            Peer::Grpc | Peer::Grpcio | Peer::GrpcJs | Peer::GrpcJava => Peer::Grpc,
            Peer::Capnp | Peer::Pycapnp => Peer::Capnp,
            Peer::Capnweb | Peer::GrpcGo | Peer::RedisPerl | Peer::RedisTcl | Peer::RedisElisp => self,
        }
    }

    /// Returns Debian's packages with the tools of its own program.
    fn packages(self) -> &'static str {
        match self {
            Peer::Grpc => "g++ protobuf-compiler-grpc libgrpc++-dev libprotobuf-dev",
            Peer::Capnp => "g++ capnproto libcapnp-dev",
            Peer::Grpcio | Peer::Pycapnp => "python3 python3-venv",
            Peer::GrpcJs | Peer::Capnweb => "nodejs npm",
            Peer::GrpcJava => "maven openjdk-17-jdk-headless",
            Peer::GrpcGo => "golang-go protobuf-compiler",
            Peer::RedisPerl => "redis-server libredis-perl",
            Peer::RedisTcl => "redis-server tcl",
            Peer::RedisElisp => "redis-server emacs-nox",
        }
    }

    /// Returns true if its program and that of its server are in a folder.
    pub fn is_installed(self, folder: &Path) -> bool {
        [self, self.server()].iter().all(|peer| folder.join(peer.name()).is_file())
    }

    /// Returns the way to have it.
    pub fn remedy(self) -> String {
        let (server, name) = (self.server(), self.name());
        match server == self {
            true => {
                format!("not installed: apt-get install {}; bench/veneers/peers.sh {name}", self.packages())
            }
            false => format!(
                "not installed: apt-get install {} {}; bench/veneers/peers.sh {} {name}",
                self.packages(),
                server.packages(),
                server.name()
            ),
        }
    }

    /// Starts its server at a unix socket in `place`, and its client. For Tcl, which has no unix
    /// sockets, the server is at a port, too.
    ///
    /// # Errors
    /// One of them does not start.
    pub fn start(self, folder: &Path, place: &Path) -> Result<Box<dyn Subject>, Failed> {
        let name = self.name();
        let socket = place.join(name);
        let program = |peer: Peer, order| {
            let mut command = Command::new(folder.join(peer.name()));
            command.arg(order).arg(&socket);
            command
        };
        // Messages of a library about connections that end are not for the table.
        let mut server = Program::start(name, program(self.server(), "serve").stderr(Stdio::null()))?;
        let line = server.hear(READY_MAX).map_err(|why| format!("the server of {name}: {why}"))?;
        if line != "ready" {
            return Err(format!("the server of {name} says `{line}`").into());
        }
        Ok(Box::new(Client::of(server, name, program(self, "client"))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_installs_each_peer_with_the_packages_that_are_told() {
        let script = include_str!("../../../../../bench/veneers/peers.sh");
        let all = [
            Peer::Grpc,
            Peer::Capnp,
            Peer::Grpcio,
            Peer::Pycapnp,
            Peer::GrpcJs,
            Peer::Capnweb,
            Peer::GrpcJava,
            Peer::GrpcGo,
            Peer::RedisPerl,
            Peer::RedisTcl,
            Peer::RedisElisp,
        ];
        assert!(script.contains(&all.map(Peer::name).join(" ")));
        for peer in all {
            assert!(script.contains(&format!("apt-get install {}\"", peer.packages())), "{peer:?}");
        }
        let remedy = Peer::Pycapnp.remedy();
        assert_eq!(
            remedy,
            "not installed: apt-get install python3 python3-venv g++ capnproto libcapnp-dev; \
             bench/veneers/peers.sh capnp pycapnp"
        );
    }
}
