//! The platforms that packages are made for, as each kind of package names them.

use anyhow::{Context as _, Result};

/// Linux on a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Platform {
    #[value(name = "x86_64")]
    X86,
    #[value(name = "aarch64")]
    Arm,
}

impl Platform {
    pub(super) const ALL: [Self; 2] = [Self::X86, Self::Arm];

    fn processor(self) -> &'static str {
        match self {
            Self::X86 => "x86_64",
            Self::Arm => "aarch64",
        }
    }

    pub(super) fn of_this_machine() -> Result<Self> {
        let processor = std::env::consts::ARCH;
        let found = Self::ALL
            .into_iter()
            .find(|platform| platform.processor() == processor);
        found.with_context(|| format!("there are no packages for {processor}"))
    }

    /// As Rust names it.
    pub(super) fn triple(self) -> String {
        format!("{}-unknown-linux-musl", self.processor())
    }

    /// As Zig names it.
    pub(super) fn zig_target(self) -> String {
        format!("{}-linux-musl", self.processor())
    }

    /// A static program runs on every libc.
    pub(super) fn wheel_tags(self) -> Vec<String> {
        ["manylinux_2_17", "manylinux2014", "musllinux_1_1"]
            .map(|libc| format!("py3-none-{libc}_{}", self.processor()))
            .to_vec()
    }

    pub(super) fn npm_cpu(self) -> &'static str {
        match self {
            Self::X86 => "x64",
            Self::Arm => "arm64",
        }
    }

    pub(super) fn npm_name(self, package: &str) -> String {
        format!("{package}-linux-{}", self.npm_cpu())
    }

    pub(super) fn debian(self) -> &'static str {
        match self {
            Self::X86 => "amd64",
            Self::Arm => "arm64",
        }
    }
}
