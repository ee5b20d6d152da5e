//! What of a passage words are looked for in, the same for every search for words.

use std::borrow::Cow;

use holodeck_model::JsonMap;
use serde_json::Value;

/// Of the metadata: names of the sections around a passage, which its text need not repeat.
const TITLES: [&str; 2] = ["headings", "section"];

/// The text of a passage, and after it its context, the titles around it and its section's number.
pub(crate) fn searched<'a>(text: &'a str, context: Option<&str>, metadata: &JsonMap) -> Cow<'a, str> {
    let mut searched = Cow::Borrowed(text);
    let mut add = |more: &str| {
        let searched = searched.to_mut();
        searched.push('\n');
        searched.push_str(more);
    };
    context.into_iter().for_each(&mut add);
    for value in TITLES.iter().filter_map(|title| metadata.get(*title)) {
        match value {
            Value::String(title) => add(title),
            Value::Array(titles) => titles.iter().filter_map(Value::as_str).for_each(&mut add),
            _ => {}
        }
    }
    searched
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::searched;

    #[test]
    fn context_and_titles_follow_the_text() {
        let Value::Object(metadata) = json!({"headings": ["Terms", "Refunds"], "section": "4.2", "page": 3})
        else {
            unreachable!()
        };
        assert_eq!(
            searched("Text", Some("Of a contract"), &metadata),
            "Text\nOf a contract\nTerms\nRefunds\n4.2"
        );
        assert_eq!(searched("Text", None, &serde_json::Map::new()), "Text");
    }
}
