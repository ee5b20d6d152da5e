//! The text of a passage that keyword search covers, the same for every store.

use std::borrow::Cow;

use holodeck_model::JsonMap;
use serde_json::Value;

/// Metadata with the titles around a passage, which its text does not repeat.
const TITLES: [&str; 2] = ["headings", "section"];

/// A passage's text, followed by its context, the titles around it and its section number.
pub(crate) fn keyword_text<'a>(text: &'a str, context: Option<&str>, metadata: &JsonMap) -> Cow<'a, str> {
    let mut keyword_text = Cow::Borrowed(text);
    let mut add = |more: &str| {
        let keyword_text = keyword_text.to_mut();
        keyword_text.push('\n');
        keyword_text.push_str(more);
    };
    context.into_iter().for_each(&mut add);
    for value in TITLES.iter().filter_map(|title| metadata.get(*title)) {
        match value {
            Value::String(title) => add(title),
            Value::Array(titles) => titles.iter().filter_map(Value::as_str).for_each(&mut add),
            _ => {}
        }
    }
    keyword_text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::keyword_text;

    #[test]
    fn context_and_titles_follow_the_text() {
        let Value::Object(metadata) = json!({"headings": ["Terms", "Refunds"], "section": "4.2", "page": 3})
        else {
            unreachable!()
        };
        assert_eq!(
            keyword_text("Text", Some("Of a contract"), &metadata),
            "Text\nOf a contract\nTerms\nRefunds\n4.2"
        );
        assert_eq!(keyword_text("Text", None, &serde_json::Map::new()), "Text");
    }
}
