//! Masks values of the configuration because of their place.

use std::borrow::Cow;

use serde_json::Value;

use super::{
    MASK, Redactor, merge_ranges,
    names::{Names, Role, role, role_of_mapping},
    replace_ranges, shapes,
};

impl Redactor {
    /// Masks the secrets of a part of the configuration: values with names of secrets, every variable and header, the
    /// credentials and query values of URLs, secrets in arguments of programs, and everything that [`text`](Self::text)
    /// masks.
    pub fn configuration(&self, value: &mut Value) {
        self.mask_fields(value, Names::Fields);
    }

    /// The same for the arguments of a program.
    pub fn arguments(&self, arguments: &mut [String]) {
        let texts: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let found = shapes::arguments(&texts);
        for (argument, mut found) in arguments.iter_mut().zip(found) {
            self.find_configured(argument, &mut found);
            if let Cow::Owned(clean) = replace_ranges(argument, merge_ranges(found)) {
                *argument = clean;
            }
        }
    }

    /// The same for a text such as a URL.
    pub fn configured<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut found = Vec::new();
        self.find_configured(text, &mut found);
        replace_ranges(text, merge_ranges(found))
    }

    fn find_configured(&self, text: &str, found: &mut Vec<std::ops::Range<usize>>) {
        found.extend(self.find(text));
        shapes::find_in_configured_urls(text, found);
        for short in &self.short {
            let hits = text.match_indices(short.as_str());
            found.extend(hits.map(|(start, hit)| start..start + hit.len()));
        }
    }

    fn mask_fields(&self, value: &mut Value, names: Names) {
        match value {
            // Schemas and the answers of mocks are texts for a model.
            Value::String(text) if matches!(names, Names::Schema | Names::Data) => {
                self.mask_text(text);
            }
            Value::String(text) => {
                if let Cow::Owned(clean) = self.configured(text) {
                    *text = clean;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask_fields(item, names)),
            Value::Object(fields) => {
                for (name, field) in fields {
                    let role = if field.is_object() {
                        role_of_mapping(name, names)
                    } else {
                        role(name, names)
                    };
                    match role {
                        Role::Secret | Role::Variables => mask_all(field),
                        Role::Arguments => self.mask_argument_list(field, names),
                        Role::Prose => {
                            self.mask_value(field);
                        }
                        Role::Plain(names) => self.mask_fields(field, names),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                self.mask_value(value);
            }
        }
    }

    fn mask_argument_list(&self, value: &mut Value, names: Names) {
        let texts = value.as_array().and_then(|items| {
            let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<String>>>()
        });
        match texts {
            Some(mut texts) => {
                self.arguments(&mut texts);
                *value = texts.into();
            }
            // The expected arguments of a tool call.
            None => self.mask_fields(value, names),
        }
    }
}

fn mask_all(value: &mut Value) {
    match value {
        Value::String(_) | Value::Number(_) => *value = MASK.into(),
        Value::Array(items) => items.iter_mut().for_each(mask_all),
        Value::Object(fields) => fields.values_mut().for_each(mask_all),
        Value::Null | Value::Bool(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn configuration_is_written_without_secrets() {
        let redactor = Redactor::new(["tiny".to_owned()]);
        let mut value = json!({
            "model": {"provider": "openai", "name": "gpt", "max_tokens": 100, "api_key": "x",
                "endpoint": "https://me:pw@host/v1?deployment=blue"},
            "tools": [{
                "name": "db", "url": "https://host/mcp?code=7", "headers": {"Accept": "application/json"},
                "args": ["--token", "abc", "./server.js", "-tiny-"], "config": {"api_token": 17, "mode": "fast"},
                "parameters": {"properties": {"token": {"type": "string"}}},
                "oauth": {"client_id": "desk", "client_secret": "y", "scopes": ["read"], "other": "z"},
            }, {"name": "odd", "oauth": "v"}, {"name": "list", "oauth": ["w"]}],
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
                    "oauth": {"client_id": "desk", "client_secret": "***", "scopes": ["read"], "other": "***"},
                }, {"name": "odd", "oauth": "***"}, {"name": "list", "oauth": ["***"]}],
            })
        );
    }
}
