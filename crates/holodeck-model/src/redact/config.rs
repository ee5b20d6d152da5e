//! Configuration as it may be written: values go because of their place.

use std::borrow::Cow;

use serde_json::Value;

use super::{
    MASK, Redactor, joined,
    names::{Names, Role, role},
    replaced, shapes,
};

impl Redactor {
    /// Masks the secrets of a part of the configuration: by their names, every variable and header, the credentials and
    /// query values of URLs, secrets among the arguments of programs, and what [`text`](Self::text) masks.
    pub fn configuration(&self, value: &mut Value) {
        self.fields(value, Names::Fields);
    }

    /// The same for the arguments of a program.
    pub fn arguments(&self, arguments: &mut [String]) {
        let texts: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let found = shapes::arguments(&texts);
        for (argument, mut found) in arguments.iter_mut().zip(found) {
            self.find_configured(argument, &mut found);
            if let Cow::Owned(clean) = replaced(argument, joined(found)) {
                *argument = clean;
            }
        }
    }

    /// The same for a text such as a URL.
    pub fn configured<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut found = Vec::new();
        self.find_configured(text, &mut found);
        replaced(text, joined(found))
    }

    fn find_configured(&self, text: &str, found: &mut Vec<std::ops::Range<usize>>) {
        found.extend(self.find(text));
        shapes::find_in_configured_urls(text, found);
        for short in &self.short {
            let hits = text.match_indices(short.as_str());
            found.extend(hits.map(|(start, hit)| start..start + hit.len()));
        }
    }

    fn fields(&self, value: &mut Value, names: Names) {
        match value {
            // Schemas and answers of mocks are texts for a model.
            Value::String(text) if matches!(names, Names::Schema | Names::Data) => {
                self.mask_text(text);
            }
            Value::String(text) => {
                if let Cow::Owned(clean) = self.configured(text) {
                    *text = clean;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.fields(item, names)),
            Value::Object(fields) => {
                for (name, field) in fields {
                    match role(name, names) {
                        Role::Secret | Role::Variables => blot(field),
                        Role::Arguments => self.argument_list(field, names),
                        Role::Prose => {
                            self.mask_value(field);
                        }
                        Role::Plain(names) => self.fields(field, names),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                self.mask_value(value);
            }
        }
    }

    fn argument_list(&self, value: &mut Value, names: Names) {
        let texts = value.as_array().and_then(|items| {
            let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<String>>>()
        });
        match texts {
            Some(mut texts) => {
                self.arguments(&mut texts);
                *value = texts.into();
            }
            // The arguments that a call of a tool is expected to have.
            None => self.fields(value, names),
        }
    }
}

fn blot(value: &mut Value) {
    match value {
        Value::String(_) | Value::Number(_) => *value = MASK.into(),
        Value::Array(items) => items.iter_mut().for_each(blot),
        Value::Object(fields) => fields.values_mut().for_each(blot),
        Value::Null | Value::Bool(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn b05_configuration_is_written_without_secrets() {
        let redactor = Redactor::new(["tiny".to_owned()]);
        let mut value = json!({
            "model": {"provider": "openai", "name": "gpt", "max_tokens": 100, "api_key": "x",
                "endpoint": "https://me:pw@host/v1?deployment=blue"},
            "tools": [{
                "name": "db", "url": "https://host/mcp?code=7", "headers": {"Accept": "application/json"},
                "args": ["--token", "abc", "./server.js", "-tiny-"], "config": {"api_token": 17, "mode": "fast"},
                "parameters": {"properties": {"token": {"type": "string"}}},
            }],
        });
        redactor.configuration(&mut value);
        assert_eq!(
            value,
            json!({
                "model": {"provider": "openai", "name": "gpt", "max_tokens": 100, "api_key": "***",
                    "endpoint": "https://***@host/v1?deployment=***"},
                "tools": [{
                    "name": "db", "url": "https://host/mcp?code=***", "headers": {"Accept": "***"},
                    "args": ["--token", "***", "./server.js", "-***-"], "config": {"api_token": "***", "mode": "fast"},
                    "parameters": {"properties": {"token": {"type": "string"}}},
                }],
            })
        );
    }
}
