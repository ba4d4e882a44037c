//! Programs of other systems that are compiled for a run: with a library in C++, or by cargo.
//!
//! [`Library::prepare`] compiles the program that uses a definition of an interface, and
//! [`build_rust`] a package outside the workspace. Both return the reason why there is no program,
//! with the remedy.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::common::Failed;
use super::process::{succeed, version};

/// The name of a source file, and its text.
pub type Source = (&'static str, &'static str);

/// A program that was compiled.
pub struct Made {
    /// Its path.
    pub program: PathBuf,
    /// The versions of its system and its compiler.
    pub version: String,
}

/// A library in C++ that carries calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Library {
    Omniorb,
    Grpc,
    Capnp,
}

impl Library {
    /// Returns Debian's packages that have its tools.
    fn packages(self) -> &'static str {
        match self {
            Library::Omniorb => "g++ omniidl libomniorb4-dev",
            Library::Grpc => "g++ protobuf-compiler-grpc libgrpc++-dev libprotobuf-dev",
            Library::Capnp => "g++ capnproto libcapnp-dev",
        }
    }

    /// Returns the compiler of its definitions, the option that prints the version, and a header.
    fn needs(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Library::Omniorb => ("omniidl", "-V", "omniORB4/CORBA.h"),
            Library::Grpc => ("protoc", "--version", "grpcpp/grpcpp.h"),
            Library::Capnp => ("capnp", "--version", "capnp/ez-rpc.h"),
        }
    }

    /// Compiles a program, in a folder that is for it alone. The program prints the version of its
    /// system if its argument is `version`.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn prepare(
        self,
        folder: &Path,
        [definition, program]: [Source; 2],
        shared: &[Source],
    ) -> Result<Made, String> {
        let missing = || format!("to have it, on Debian: apt-get install {}", self.packages());
        let compiler = version("g++", "--version").ok_or_else(missing)?;
        let (translator, flag, header) = self.needs();
        version(translator, flag).ok_or_else(missing)?;
        let mut look = Command::new("g++");
        look.args(["-fsyntax-only", "-std=c++17", "-include", header, "-x", "c++", "/dev/null"]);
        succeed(&mut look, header).map_err(|_| missing())?;
        let write =
            |(file, text): &Source| std::fs::write(folder.join(file), text).map_err(|why| why.to_string());
        [definition, program].iter().chain(shared).try_for_each(write)?;
        let program = self.compile(folder, definition.0, program.0).map_err(|error| error.to_string())?;
        let library = version(&program.to_string_lossy(), "version").ok_or("its program does not start")?;
        Ok(Made { program, version: format!("{library}, by {compiler}") })
    }

    /// Makes the program from files in the folder.
    fn compile(self, folder: &Path, definition: &str, program: &str) -> Result<PathBuf, Failed> {
        let stem = definition.split_once('.').map_or(definition, |(stem, _)| stem);
        let mut gcc = Command::new("g++");
        gcc.current_dir(folder).args(["-std=c++17", "-O2", "-pthread", "-o", "program", program]);
        match self {
            Library::Omniorb => {
                let mut omniidl = Command::new("omniidl");
                succeed(omniidl.current_dir(folder).args(["-bcxx", definition]), definition)?;
                gcc.arg(format!("{stem}SK.cc")).args(["-lomniORB4", "-lomnithread"]);
            }
            Library::Grpc => {
                let plugin = on_path("grpc_cpp_plugin").ok_or("`grpc_cpp_plugin` is not on the PATH")?;
                let mut protoc = Command::new("protoc");
                protoc.current_dir(folder).args(["--cpp_out=.", "--grpc_out=.", definition]);
                protoc.arg(format!("--plugin=protoc-gen-grpc={}", plugin.display()));
                succeed(&mut protoc, definition)?;
                gcc.args([format!("{stem}.pb.cc"), format!("{stem}.grpc.pb.cc")]);
                gcc.args(["-Wl,--copy-dt-needed-entries", "-lgrpc++", "-lgrpc", "-lgpr", "-lprotobuf"]);
            }
            Library::Capnp => {
                let mut capnp = Command::new("capnp");
                succeed(capnp.current_dir(folder).args(["compile", "-oc++", definition]), definition)?;
                gcc.arg(format!("{definition}.c++"));
                gcc.args(["-lcapnp-rpc", "-lcapnp", "-lkj-async", "-lkj"]);
            }
        }
        succeed(&mut gcc, program)?;
        Ok(folder.join("program"))
    }
}

/// Returns the path of a program that is on the PATH.
fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|place| place.join(program)).find(|place| place.is_file())
}

/// Compiles a package in Rust that is outside the workspace, in its own folder. `usual` is the
/// folder's usual name, and `option` the one that sets another.
///
/// # Errors
/// The reason why there is no program.
pub fn build_rust(package: &Path, program: &str, [usual, option]: [&str; 2]) -> Result<Made, String> {
    let manifest = package.join("Cargo.toml");
    if !manifest.is_file() {
        let manifest = manifest.display();
        return Err(format!("`{manifest}` does not exist; set the folder of `{usual}` with `{option}`"));
    }
    let version = version("cargo", "--version")
        .ok_or("install `cargo`, which compiles the programs in Rust".to_owned())?;
    let target = package.join("target");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "--release", "--locked", "--manifest-path"]).arg(&manifest);
    succeed(cargo.arg("--target-dir").arg(&target), program).map_err(|error| error.to_string())?;
    Ok(Made { program: target.join("release").join(program), version })
}
