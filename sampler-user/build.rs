//! Embeds the BPF object: the one that is checked in beside its source, or the one that
//! `SAMPLER_BPF_OBJECT` names (an absolute path), as `cargo xtask test` does with a fresh one.

use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-env-changed=SAMPLER_BPF_OBJECT");
    let object = env::var_os("SAMPLER_BPF_OBJECT").map_or_else(
        || {
            PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default())
                .join("../sampler-ebpf/prebuilt/sampler.bpf.o")
        },
        PathBuf::from,
    );
    println!("cargo::rerun-if-changed={}", object.display());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("sampler.bpf.o");
    fs::copy(&object, &out).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("can't embed the BPF object {}: {error}", object.display()),
        )
    })?;
    Ok(())
}
