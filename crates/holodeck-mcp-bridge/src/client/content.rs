//! Converts a server's answers for the model.

use std::borrow::Cow;
use std::fmt::Write as _;

use holodeck_backend_api::{Image, Passage, ToolOutput};
use holodeck_model::long_integers;
use rmcp::model::{
    CallToolResult, ContentBlock, GetPromptResult, PromptMessage, Resource, ResourceContents, Role,
};
use serde_json::Value;

/// Text and images, in order.
#[derive(Default)]
pub(crate) struct Parts {
    text: Vec<String>,
    images: Vec<Image>,
}

impl Parts {
    pub(crate) fn add(&mut self, block: ContentBlock) {
        match block {
            ContentBlock::Text(text) => self.text.push(text.text),
            ContentBlock::Image(image) => self.image(image.mime_type, image.data),
            ContentBlock::Audio(audio) => {
                let size = decoded(&audio.data);
                self.text
                    .push(format!("[audio, {}, {size} bytes]", audio.mime_type));
            }
            ContentBlock::Resource(embedded) => self.resource(embedded.resource),
            ContentBlock::ResourceLink(link) => self.text.push(link_text(&link)),
            _ => self.text.push("[content of an unsupported kind]".to_owned()),
        }
    }

    fn image(&mut self, media_type: String, base64: String) {
        self.images.push(Image {
            media_type,
            base64: base64.into(),
        });
    }

    fn resource(&mut self, resource: ResourceContents) {
        match resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                self.text.push(format!("[resource {uri}]\n{text}"));
            }
            ResourceContents::BlobResourceContents {
                uri, mime_type, blob, ..
            } => {
                let media_type = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                if media_type.starts_with("image/") {
                    self.text.push(format!("[resource {uri}, a picture]"));
                    self.image(media_type, blob);
                } else {
                    let size = decoded(&blob);
                    let text = format!("[resource {uri}, {media_type}, {size} bytes of binary data]");
                    self.text.push(text);
                }
            }
            _ => self.text.push("[a resource of an unsupported kind]".to_owned()),
        }
    }

    pub(crate) fn into_text_and_images(self) -> (String, Vec<Image>) {
        (self.text.join("\n"), self.images)
    }
}

/// The result of a call.
pub(crate) fn of_call(result: CallToolResult) -> ToolOutput {
    let mut parts = Parts::default();
    for block in result.content {
        parts.add(block);
    }
    if let Some(structured) = result.structured_content {
        // Servers repeat structured content as text for older clients; it is included once.
        if !restates(&structured, &parts.text) {
            let text = structured.to_string();
            parts.text.push(long_integers::unwrap(&text).into_owned());
        }
    }
    // Retrieved passages are texts, the best first.
    let passages = parts.text.iter().map(Passage::of).collect();
    let (text, images) = parts.into_text_and_images();
    ToolOutput {
        images,
        is_error: result.is_error.unwrap_or_default(),
        ..ToolOutput::retrieved(text, passages)
    }
}

/// Whether the structured content equals the texts: as a whole, or, since it must be an object, in its only field.
fn restates(structured: &Value, texts: &[String]) -> bool {
    let same = |value: &Value, text: &String| match value {
        Value::String(string) => string == text,
        value => {
            let text = long_integers::wrap(text).map_or(Cow::Borrowed(text.as_str()), Cow::Owned);
            serde_json::from_str::<Value>(&text).is_ok_and(|parsed| parsed == *value)
        }
    };
    let all = |value: &Value| match value {
        Value::Array(items) if items.len() == texts.len() => {
            items.iter().zip(texts).all(|(item, text)| same(item, text))
        }
        _ => false,
    };
    let only = structured.as_object().filter(|fields| fields.len() == 1);
    let only = only.and_then(|fields| fields.values().next());
    [Some(structured), only]
        .into_iter()
        .flatten()
        .any(|value| texts.iter().any(|text| same(value, text)) || all(value))
}

/// A prompt as the answer of a tool: a single message is its text; of several, each names its role.
pub(crate) fn of_prompt(result: GetPromptResult) -> ToolOutput {
    let many = result.messages.len() > 1;
    let mut output = ToolOutput::ok("");
    for PromptMessage { role, content, .. } in result.messages {
        let mut parts = Parts::default();
        parts.add(content);
        let (text, images) = parts.into_text_and_images();
        output.images.extend(images);
        if !output.text.is_empty() {
            output.text.push_str("\n\n");
        }
        if many {
            output.text.push_str(match role {
                Role::User => "user: ",
                Role::Assistant => "assistant: ",
            });
        }
        output.text.push_str(&text);
    }
    output
}

fn link_text(link: &Resource) -> String {
    let mut text = format!("[link to resource {}: {}", link.name, link.uri);
    if let Some(media_type) = &link.mime_type {
        let _ = write!(text, ", {media_type}");
    }
    text.push(']');
    if let Some(description) = &link.description {
        let _ = write!(text, " {description}");
    }
    text
}

/// Approximate number of bytes in base64.
fn decoded(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn output(result: Value) -> ToolOutput {
        of_call(serde_json::from_value(result).unwrap())
    }

    #[test]
    fn every_kind_of_content_reaches_the_model() {
        let output = output(json!({ "content": [
            { "type": "text", "text": "a" },
            { "type": "image", "data": "AAAA", "mimeType": "image/png" },
            { "type": "audio", "data": "AAAAAA==", "mimeType": "audio/wav" },
            { "type": "resource", "resource": { "uri": "demo://1", "text": "inside" } },
            { "type": "resource", "resource": { "uri": "demo://2", "mimeType": "image/jpeg", "blob": "BBBB" } },
            { "type": "resource", "resource": { "uri": "demo://3", "blob": "BBBB" } },
            { "type": "resource_link", "uri": "demo://4", "name": "four", "mimeType": "text/plain",
              "description": "The fourth." },
        ]}));
        insta::assert_snapshot!(output.text, @r"
        a
        [audio, audio/wav, 4 bytes]
        [resource demo://1]
        inside
        [resource demo://2, a picture]
        [resource demo://3, application/octet-stream, 3 bytes of binary data]
        [link to resource four: demo://4, text/plain] The fourth.
        ");
        let images: Vec<_> = output
            .images
            .iter()
            .map(|image| (&*image.media_type, &*image.base64))
            .collect();
        assert_eq!(images, [("image/png", "AAAA"), ("image/jpeg", "BBBB")]);
        assert!(!output.is_error);
    }

    #[test]
    fn structured_content_is_included_once() {
        let twice = json!({ "content": [{ "type": "text", "text": "{\"a\": 1}" }],
            "structuredContent": { "a": 1 } });
        assert_eq!(output(twice).text, "{\"a\": 1}");
        let wrapped = json!({ "content": [{ "type": "text", "text": "rye" }],
            "structuredContent": { "content": "rye" } });
        assert_eq!(output(wrapped).text, "rye");
        let listed = json!({ "content": [{ "type": "text", "text": "1" }, { "type": "text", "text": "b" }],
            "structuredContent": { "result": [1, "b"] } });
        assert_eq!(output(listed).text, "1\nb");
        let apart =
            json!({ "content": [{ "type": "text", "text": "one" }], "structuredContent": { "a": 1 } });
        assert_eq!(output(apart).text, "one\n{\"a\":1}");
        assert_eq!(output(json!({ "structuredContent": [1] })).text, "[1]");
    }

    #[test]
    fn a_failure_of_the_tool_is_one() {
        let failed = json!({ "content": [{ "type": "text", "text": "no such file" }], "isError": true });
        let failed = output(failed);
        assert_eq!((failed.text.as_str(), failed.is_error), ("no such file", true));
    }

    #[test]
    fn prompts_are_text() {
        let prompt = |messages: Value| {
            of_prompt(serde_json::from_value(json!({ "messages": messages })).unwrap()).text
        };
        let one = json!([{ "role": "user", "content": { "type": "text", "text": "Be brief." } }]);
        assert_eq!(prompt(one), "Be brief.");
        let two = json!([
            { "role": "user", "content": { "type": "text", "text": "Hi" } },
            { "role": "assistant", "content": { "type": "text", "text": "Hello" } },
        ]);
        assert_eq!(prompt(two), "user: Hi\n\nassistant: Hello");
    }
}
