//! Opens the HTML reports in a browser: nothing may be wider than the window, from a phone to a desk.

use anyhow::Result;
use serde_json::json;

use crate::{browser::Browser, workspace};

/// The page of a usual run, the one that must open fast, and that of a comparison.
const PAGES: [&str; 3] = ["some", "many", "comparison"];
/// The page without pictures, because it is too long for one.
const LONG: &str = "many";

/// Looks at the pages in `target/report` and leaves pictures there.
pub(super) fn check() -> Result<()> {
    let folder = workspace::root().join("target/report");
    let options = json!({ "folder": folder, "pages": PAGES, "long": LONG });
    Browser::install()?.run("report.mjs", &[], options)?;
    println!("pictures: {}", folder.display());
    Ok(())
}
