//! Opens the HTML reports in a browser: nothing may be wider than the window, from a phone to a desk.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

use crate::{browser, host, workspace};

/// Widths of the window in pixels, and whether it is dark.
const WINDOWS: [(u32, bool); 6] = [
    (320, false),
    (320, true),
    (768, false),
    (768, true),
    (1600, false),
    (1600, true),
];

/// The page of a usual run, the one that must open fast, and that of a comparison.
const PAGES: [&str; 3] = ["some", "many", "comparison"];
/// The page without pictures, because it is too long for one.
const LONG: &str = "many";

/// Looks at the pages in `target/report` and leaves pictures there.
pub(super) fn check() -> Result<()> {
    let browser = browser::find()?;
    let folder = workspace::root().join("target/report");
    for page in PAGES {
        let html = fs::read_to_string(folder.join(format!("{page}.html")))?;
        fs::write(folder.join("measured.html"), measured(&html)?)?;
        for (width, dark) in WINDOWS {
            let window = Window {
                browser: &browser,
                folder: &folder,
                width,
                dark,
            };
            let found = window.measure()?;
            println!(
                "{page}.html at {width} px{}: {found}",
                if dark { ", dark" } else { "" }
            );
            if page != LONG {
                window.picture(page)?;
            }
        }
    }
    println!("pictures: {}", folder.display());
    Ok(())
}

struct Window<'a> {
    browser: &'a Path,
    folder: &'a Path,
    width: u32,
    dark: bool,
}

impl Window<'_> {
    /// What the page reports of itself; an error if something in it is too wide. A window has a smallest width, a frame
    /// has none.
    fn measure(&self) -> Result<String> {
        let frame = self.frame(
            "measured.html",
            "<p id=\"found\"></p><script>onmessage = (event) => { found.textContent = event.data; };</script>",
        )?;
        let dom = self.open(&frame, &["--virtual-time-budget=5000", "--dump-dom"])?;
        let (_, rest) = dom
            .split_once("<p id=\"found\">")
            .context("the page was not opened")?;
        let (found, _) = rest.split_once("</p>").context("the page was not opened")?;
        let (wide, time) = found.split_once(' ').context("the page reported nothing")?;
        if wide.parse::<u32>()? > self.width {
            bail!(
                "the page is {wide} px wide in a window of {} px: {time}",
                self.width
            );
        }
        Ok(time.to_owned())
    }

    /// The page as it is, policy included.
    fn picture(&self, page: &str) -> Result<()> {
        let frame = self.frame(&format!("{page}.html"), "")?;
        let shade = if self.dark { "dark" } else { "light" };
        let picture = self.folder.join(format!("{page}-{}-{shade}.png", self.width));
        self.open(&frame, &[&format!("--screenshot={}", picture.display())])?;
        Ok(())
    }

    fn frame(&self, page: &str, more: &str) -> Result<PathBuf> {
        let path = self.folder.join("frame.html");
        let width = self.width;
        let html = format!(
            "<!DOCTYPE html><meta name=\"color-scheme\" content=\"light dark\"><body style=\"margin:0\">{more}\
             <iframe src=\"{page}\" width=\"{width}\" height=\"3200\" style=\"border:0\"></iframe></body>"
        );
        fs::write(&path, html)?;
        Ok(path)
    }

    fn open(&self, page: &Path, arguments: &[&str]) -> Result<String> {
        let scheme = u8::from(!self.dark);
        let mut browser = host::command(self.browser);
        browser
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
            .arg(format!("--window-size={},3200", self.width))
            .args(arguments)
            .arg(format!("file://{}", page.display()));
        // It reports the buses and displays that a machine without a screen lacks.
        browser.stderr(std::process::Stdio::null());
        host::output_only(&mut browser)
    }
}

/// The page without its policy and with a script that reports how wide it is, what is widest, and when it was there.
fn measured(html: &str) -> Result<String> {
    const SCRIPT: &str = "<script>addEventListener(\"load\", () => {
  const complete = Math.round(performance.now());
  const [paint] = performance.getEntriesByName(\"first-contentful-paint\");
  const shown = paint ? Math.round(paint.startTime) : \"?\";
  const cases = document.querySelectorAll(\".case\");
  // What is closed or out of sight has no width.
  if (cases.length < 1000) {
    for (const one of document.querySelectorAll(\".group\")) one.style.contentVisibility = \"visible\";
    for (const one of document.querySelectorAll(\"details\")) one.open = true;
  }
  const width = document.documentElement.scrollWidth;
  let widest = \"\";
  if (width > innerWidth) {
    const right = (one) => one.getBoundingClientRect().right;
    const one = [...document.querySelectorAll(\"body *\")].reduce((a, b) => (right(b) > right(a) ? b : a));
    widest = `, widest: ${one.tagName} ${one.className}`;
  }
  parent.postMessage(`${width} ${cases.length} cases: shown after ${shown} ms, complete after ${complete} ms${widest}`, \"*\");
});</script>";
    let policy = html
        .lines()
        .find(|line| line.contains("Content-Security-Policy"))
        .context("the page has no policy")?;
    Ok(html
        .replace(policy, "")
        .replace("</body>", &format!("{SCRIPT}</body>")))
}
