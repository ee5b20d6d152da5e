//! Files that the product prints and that are checked in, for readers and editors. The test that compares them
//! (`crates/holodeck-cli/tests/it/generated.rs`) lists them, and writes them when asked to.

use anyhow::Result;

use crate::host;

pub(crate) fn run() -> Result<()> {
    // With the features of the whole workspace, as its tests are built.
    let test = [
        "test",
        "--workspace",
        "--test",
        "it",
        "--locked",
        "--quiet",
        "--",
        "generated::",
        "mistakes::",
        "documentation::",
    ];
    host::run(host::cargo(test).env("HOLODECK_WRITE_GENERATED", "1"))
}
