//! Markdown as a tree of elements that the page builds node by node.
//!
//! The tree is safe by construction: it has only the tags listed here, and no attribute but the address of a link, which is
//! http, https or mailto. HTML in the text stays text, and a picture is a link. It must not return markup.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{extract::Json, problem::Result};

/// Elements within each other; those that are deeper are left out, and their text stays.
const MAX_DEPTH: usize = 32;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Text {
    text: String,
}

pub(crate) async fn render(Json(Text { text }): Json<Text>) -> Result<axum::Json<Value>> {
    Ok(axum::Json(json!({ "nodes": nodes(&text) })))
}

/// An element that is not complete.
struct Open {
    /// `None`: only its children are kept.
    tag: Option<&'static str>,
    attributes: Map<String, Value>,
    children: Vec<Value>,
}

impl Open {
    fn new(tag: Option<&'static str>) -> Self {
        Self {
            tag,
            attributes: Map::new(),
            children: Vec::new(),
        }
    }

    fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.attributes.insert(name.to_owned(), value.into());
        self
    }

    /// Adds text to the last text, if that is the last child.
    fn push_text(&mut self, text: &str) {
        match self.children.last_mut() {
            Some(Value::String(last)) => last.push_str(text),
            _ => self.children.push(text.into()),
        }
    }

    fn close(self, parent: &mut Vec<Value>) {
        match self.tag {
            Some(tag) => parent.push(json!([tag, self.attributes, self.children])),
            None => parent.extend(self.children),
        }
    }
}

/// The nodes of a text: a string is text, a list is an element (tag, attributes, children).
fn nodes(text: &str) -> Vec<Value> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut open = vec![Open::new(None)];
    let mut depth = 0;
    let mut is_head = false;
    for event in Parser::new_ext(text, options) {
        match event {
            Event::Start(tag) => {
                is_head |= matches!(tag, Tag::TableHead);
                let mut element = element(&tag, is_head);
                if depth >= MAX_DEPTH {
                    element.tag = None;
                }
                depth += usize::from(element.tag.is_some());
                open.push(element);
            }
            Event::End(_) => {
                if let Some(element) = open.pop() {
                    is_head &= element.attributes.get("head").is_none();
                    depth -= usize::from(element.tag.is_some());
                    close(element, &mut open);
                }
            }
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => push(&mut open, &text),
            Event::SoftBreak => push(&mut open, "\n"),
            Event::TaskListMarker(is_done) => push(&mut open, if is_done { "☑ " } else { "☐ " }),
            Event::Code(code) => leaf(&mut open, "code", &code),
            Event::HardBreak => leaf(&mut open, "br", ""),
            Event::Rule => leaf(&mut open, "hr", ""),
            // None of these is enabled.
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                push(&mut open, &text);
            }
        }
    }
    let mut all = Vec::new();
    for element in open {
        all.extend(element.children);
    }
    all
}

fn push(open: &mut [Open], text: &str) {
    if let Some(parent) = open.last_mut() {
        parent.push_text(text);
    }
}

fn leaf(open: &mut [Open], tag: &'static str, text: &str) {
    if let Some(parent) = open.last_mut() {
        let mut leaf = Open::new(Some(tag));
        if !text.is_empty() {
            leaf.push_text(text);
        }
        leaf.close(&mut parent.children);
    }
}

fn close(mut element: Open, open: &mut [Open]) {
    element.attributes.remove("head");
    if let Some(parent) = open.last_mut() {
        element.close(&mut parent.children);
    }
}

/// The element of a tag.
fn element(tag: &Tag<'_>, is_head: bool) -> Open {
    let of = |tag| Open::new(Some(tag));
    match tag {
        Tag::Paragraph => of("p"),
        // The page has the first two.
        Tag::Heading { level, .. } => of(match *level as usize {
            1 => "h3",
            2 => "h4",
            3 => "h5",
            _ => "h6",
        }),
        Tag::BlockQuote(_) => of("blockquote"),
        Tag::CodeBlock(CodeBlockKind::Indented | CodeBlockKind::Fenced(_)) => of("pre"),
        Tag::List(None) => of("ul"),
        Tag::List(Some(start)) => of("ol").with("start", *start),
        Tag::Item => of("li"),
        Tag::Emphasis => of("em"),
        Tag::Strong => of("strong"),
        Tag::Strikethrough => of("del"),
        Tag::Table(_) => of("table"),
        Tag::TableHead => of("tr").with("head", true),
        Tag::TableRow => of("tr"),
        Tag::TableCell => of(if is_head { "th" } else { "td" }),
        Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } if is_safe(dest_url) => {
            of("a").with("href", dest_url.as_ref())
        }
        _ => Open::new(None),
    }
}

/// Whether a person may be led to this address: it runs nothing.
fn is_safe(address: &str) -> bool {
    let scheme = address.split_once(':').map_or("", |(scheme, _)| scheme);
    ["http", "https", "mailto"]
        .iter()
        .any(|safe| scheme.eq_ignore_ascii_case(safe))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn text_becomes_elements() {
        let text = "# Title\n\nSome *words* and `code`.\n\n3. three\n4. four\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n\
                    ```rust\nfn f() {}\n```\n\n- [x] done\n";
        assert_eq!(
            Value::from(nodes(text)),
            json!([
                ["h3", {}, ["Title"]],
                ["p", {}, ["Some ", ["em", {}, ["words"]], " and ", ["code", {}, ["code"]], "."]],
                ["ol", {"start": 3}, [["li", {}, ["three"]], ["li", {}, ["four"]]]],
                ["table", {}, [
                    ["tr", {}, [["th", {}, ["a"]], ["th", {}, ["b"]]]],
                    ["tr", {}, [["td", {}, ["1"]], ["td", {}, ["2"]]]],
                ]],
                ["pre", {}, ["fn f() {}\n"]],
                ["ul", {}, [["li", {}, ["☑ done"]]]],
            ])
        );
    }

    /// All tags and attributes of a tree.
    fn names(node: &Value, found: &mut Vec<String>) {
        let Some([tag, attributes, children]) = node.as_array().map(Vec::as_slice) else {
            assert!(node.is_string(), "{node}");
            return;
        };
        found.push(tag.as_str().unwrap().to_owned());
        for (name, value) in attributes.as_object().unwrap() {
            found.push(format!("{name}={value}"));
        }
        for child in children.as_array().unwrap() {
            names(child, found);
        }
    }

    #[test]
    fn html_and_addresses_that_run_something_are_text() {
        for text in [
            "<script>alert(1)</script>",
            "a <img src=x onerror=alert(1)> b",
            "[x](javascript:alert(1))",
            "[x](JaVaScRiPt:alert(1))",
            "[x](&#106;avascript:alert(1))",
            "[x](data:text/html,<script>1</script>)",
            "![x](javascript:alert(1))",
            "<javascript:alert(1)>",
            "[x](//example.com)",
            "[x]: javascript:alert(1)\n\n[x]",
            "<iframe src=https://example.com></iframe>",
            "<svg onload=alert(1)>",
            "[x](vbscript:1)",
            "[x](\u{1}javascript:alert(1))",
        ] {
            let mut found = Vec::new();
            for node in nodes(text) {
                names(&node, &mut found);
            }
            assert!(found.iter().all(|name| name == "p"), "{text}: {found:?}");
        }
        let link = nodes("[x](https://example.com/a?b)");
        assert_eq!(
            link[0][2][0],
            json!(["a", {"href": "https://example.com/a?b"}, ["x"]])
        );
        let picture = nodes("![a cat](https://example.com/cat.png)");
        assert_eq!(
            picture[0][2][0],
            json!(["a", {"href": "https://example.com/cat.png"}, ["a cat"]])
        );
    }

    #[test]
    fn elements_within_each_other_end_at_a_limit_and_their_text_stays() {
        let mut found = Vec::new();
        let all = nodes(&format!("{}deep", "> ".repeat(500)));
        for node in &all {
            names(node, &mut found);
        }
        assert_eq!(found.len(), MAX_DEPTH);
        assert!(Value::from(all).to_string().contains("deep"));
    }

    #[test]
    fn every_beginning_of_a_text_can_be_shown() {
        let text = "# A\n\n- *b*\n  1. `c`\n\n```\nd\n```\n\n| e | f |\n|---|---|\n| ~~g~~ | [h](https://i.example) |\n\n> j **k**\n";
        for (end, _) in text.char_indices() {
            let mut found = Vec::new();
            for node in nodes(&text[..end]) {
                names(&node, &mut found);
            }
        }
    }
}
