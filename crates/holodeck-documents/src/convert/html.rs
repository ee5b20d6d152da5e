//! Web pages as Markdown.

use std::{sync::LazyLock, thread};

use htmd::{
    HtmlToMarkdown,
    options::{BulletListMarker, HrStyle, Options},
};
use regex::Regex;

use crate::{
    ConvertOptions, Document, Format, Problem,
    text::{Declarations, decode},
};

/// Elements without text.
const SKIPPED: &[&str] = &[
    "script", "style", "noscript", "template", "iframe", "object", "embed", "svg", "canvas", "audio",
    "video", "head", "select", "button", "input", "textarea",
];

/// Elements are walked recursively, so their number is limited by the stack.
const STACK: usize = 128 * 1024 * 1024;

/// Number of elements up to which a page is safe to convert here: the time grows with the square of the nesting, and
/// 2,000 nested elements take seconds.
const FEW_ELEMENTS: usize = 500;

/// Whether elements may be nested so deep that another process, with a limit on its time, should convert them.
pub(super) fn is_hostile(bytes: &[u8]) -> bool {
    let opens = bytes
        .windows(2)
        .filter(|pair| matches!(pair, [b'<', b'a'..=b'z' | b'A'..=b'Z']));
    // In UTF-16 the search would find nothing.
    bytes.contains(&0) || opens.take(FEW_ELEMENTS + 1).count() > FEW_ELEMENTS
}

pub(super) fn convert(bytes: &[u8], options: &ConvertOptions) -> Result<Document, Problem> {
    let declarations = Declarations {
        charset: options.charset.as_deref(),
        is_html: true,
    };
    let (html, notes) = decode(bytes, declarations)?;
    let broken = |reason: String| Problem::Broken {
        format: Format::Html,
        reason,
    };
    let walk = move || markdown(&html).map(|text| (title(&html), text));
    let (title, text) = thread::Builder::new()
        .name("html".to_owned())
        .stack_size(STACK)
        .spawn(walk)
        .map_err(|error| Problem::Converter(error.to_string()))?
        .join()
        .map_err(|_panic| broken("its elements can't be followed".to_owned()))?
        .map_err(|error| broken(error.to_string()))?;
    Ok(Document {
        title,
        ..super::plain(text, notes)
    })
}

fn markdown(html: &str) -> std::io::Result<String> {
    #[expect(clippy::unwrap_used, reason = "a constant pattern, proven by the tests")]
    static INLINE_PICTURE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"!\[([^\]]*)\]\(<?data:[^)]*\)").unwrap());
    #[expect(clippy::unwrap_used, reason = "a constant pattern, proven by the tests")]
    static BLANK_LINES: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\n[ \t]*\n(?:[ \t]*\n)+").unwrap());
    let converter = HtmlToMarkdown::builder()
        .options(Options {
            hr_style: HrStyle::Dashes,
            bullet_list_marker: BulletListMarker::Dash,
            ul_bullet_spacing: 1,
            ol_number_spacing: 1,
            ..Options::default()
        })
        .skip_tags(SKIPPED.to_vec())
        .build();
    let text = converter.convert(html)?;
    // An embedded image is only bytes; its description is text.
    let text = INLINE_PICTURE.replace_all(&text, "$1");
    let mut text = BLANK_LINES.replace_all(&text, "\n\n").trim().to_owned();
    text.push('\n');
    Ok(text)
}

fn title(html: &str) -> Option<String> {
    #[expect(clippy::unwrap_used, reason = "a constant pattern, proven by the tests")]
    static TITLE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?is)<title[^>]*>(.{0,2000}?)</title>").unwrap());
    let title = TITLE.captures(html)?.get(1)?.as_str();
    // Decodes character references.
    let title = markdown(title).ok()?;
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(title).filter(|title| !title.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_keeps_its_text_and_loses_its_machinery() {
        let html = r#"<!doctype html><html><head><title>Help &amp; more</title><style>b{}</style></head><body>
            <script>var x = "no";</script><noscript>no</noscript><nav><a href="/">Home</a></nav>
            <h1>Returns</h1><p>Within <b>30</b> days.<br>Or not.</p><img alt="a chart" src="data:image/png;base64,AAAA">
            <ul><li>one<ul><li>inner</li></ul></li><li>two</li></ul><ol><li>first</li></ol>
            <table><tr><th>Name</th><th>Price</th></tr><tr><td>a|b</td><td>1</td></tr></table>
            <pre><code class="language-sh">ls -l
# not a heading</code></pre><svg><text>no</text></svg></body></html>"#;
        let document = convert(html.as_bytes(), &ConvertOptions::default()).unwrap();
        insta::assert_snapshot!(document.text);
        assert_eq!(document.title.as_deref(), Some("Help & more"));
    }

    #[test]
    fn deep_nesting_is_converted_or_sent_elsewhere() {
        let page = |depth: usize| format!("{}text{}", "<div>".repeat(depth), "</div>".repeat(depth));
        assert!(!is_hostile(page(FEW_ELEMENTS).as_bytes()));
        let few = convert(page(FEW_ELEMENTS).as_bytes(), &ConvertOptions::default()).unwrap();
        assert_eq!(few.text, "text\n");
        assert!(is_hostile(page(FEW_ELEMENTS + 1).as_bytes()));
    }
}
