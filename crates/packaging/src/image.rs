//! The image of a container: an OCI image layout, written without an engine.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::PackageError;
use crate::archive::{Entry, gzip, tar};
use crate::source::Source;

/// The user of the server in the image, and the group.
pub const USER: u64 = 7447;

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Writes the image into a folder, and its layer for `packaging/Containerfile`; returns the path of
/// the image.
///
/// # Errors
/// [`PackageError`]
pub fn image(source: &Source, folder: &Path) -> Result<PathBuf, PackageError> {
    let path = folder.join(format!("bifrost-{}-image.tar", source.version));
    let root = tar(Vec::new(), &contents(source)?, source.time).map_err(PackageError::file(&path))?;
    let layer = gzip(&root).map_err(PackageError::file(&path))?;
    let layer_path = folder.join("bifrost-root.tar.gz");
    std::fs::write(&layer_path, &layer).map_err(PackageError::file(&layer_path))?;

    let config = json(&config(source, &digest(&root)));
    let manifest = json(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": described(CONFIG, &config),
        "layers": [described(LAYER, &layer)],
    }));
    let mut described_manifest = described(MANIFEST, &manifest);
    described_manifest["annotations"] = json!({"org.opencontainers.image.ref.name": source.version});
    let index = json(&json!({"schemaVersion": 2, "manifests": [described_manifest]}));
    let mut entries = vec![
        Entry::file("oci-layout", json(&json!({"imageLayoutVersion": "1.0.0"}))),
        Entry::file("index.json", index),
    ];
    for blob in [config, manifest, layer] {
        entries.push(Entry::file(format!("blobs/sha256/{}", digest(&blob)), blob));
    }
    let bytes = tar(Vec::new(), &entries, source.time);
    bytes.and_then(|bytes| std::fs::write(&path, bytes)).map_err(PackageError::file(&path))?;
    Ok(path)
}

/// Returns the files of the image.
fn contents(source: &Source) -> Result<Vec<Entry>, PackageError> {
    let names =
        format!("root:x:0:0:root:/:/sbin/nologin\nbifrost:x:{USER}:{USER}:bifrost:/srv:/sbin/nologin\n");
    let settings = source.installed_settings()?;
    let mut entries = vec![
        Entry::program("usr/bin/bifrost", source.program.clone()),
        Entry::file("etc/bifrost/bifrost.toml", settings),
        Entry::file("etc/passwd", names),
        Entry::file("etc/group", format!("root:x:0:\nbifrost:x:{USER}:\n")),
        Entry::folder("srv", 0o755, 0),
        Entry::folder("tmp", 0o1777, 0),
        Entry::folder("run/bifrost", 0o755, USER),
        Entry::folder("var/lib/bifrost", 0o700, USER),
    ];
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        entries.push(Entry::file(format!("usr/share/doc/bifrost/{file}"), source.text(file)?));
    }
    Ok(entries)
}

/// Returns the configuration: that of `packaging/Containerfile`.
fn config(source: &Source, root: &str) -> Value {
    let seconds = |n: u64| n * 1_000_000_000;
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    json!({
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "WorkingDir": "/srv",
            "Volumes": {"/var/lib/bifrost": {}},
            "ExposedPorts": {"7447/tcp": {}},
            "StopSignal": "SIGTERM",
            "Entrypoint": ["/usr/bin/bifrost"],
            "Cmd": ["serve", "--config", "/etc/bifrost/bifrost.toml", "/srv/main.theta"],
            // Not of the specification of OCI; engines that know it use it.
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/bifrost", "ping", "unix:///run/bifrost/socket"],
                "Interval": seconds(30),
                "Timeout": seconds(10),
                "StartPeriod": seconds(60),
            },
            "Labels": {
                "org.opencontainers.image.title": "bifrost",
                "org.opencontainers.image.version": source.version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{root}")]},
        "history": [{"created_by": "bifrost-packaging"}],
    })
}

fn json(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the description of a blob.
fn described(kind: &str, blob: &[u8]) -> Value {
    json!({"mediaType": kind, "digest": format!("sha256:{}", digest(blob)), "size": blob.len()})
}
