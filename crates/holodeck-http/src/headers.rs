//! Request headers whose values are never shown.

use std::fmt;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

use crate::HttpError;

/// Request headers; values are never shown, and secret ones are redacted in a server's answers.
#[derive(Clone, Default)]
pub struct Headers {
    map: HeaderMap,
    secrets: Vec<SecretString>,
}

impl Headers {
    /// No headers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a header whose value is not secret.
    pub fn insert(&mut self, name: &str, value: &str) -> Result<(), HttpError> {
        let (name, value) = parts(name, value)?;
        self.map.insert(name, value);
        Ok(())
    }

    /// Sets a header whose value is secret; white space around it is cut.
    pub fn insert_secret(&mut self, name: &str, value: &SecretString) -> Result<(), HttpError> {
        let (name, mut header) = parts(name, value.expose_secret().trim())?;
        header.set_sensitive(true);
        let value = value.expose_secret().trim();
        self.secrets.push(value.into());
        // A server may repeat the credentials without their scheme.
        if let Some((_scheme, credentials)) = value.split_once(' ').filter(|_| name == AUTHORIZATION) {
            self.secrets.push(credentials.trim().into());
        }
        self.map.insert(name, header);
        Ok(())
    }

    /// Sets `Authorization: Bearer <token>`.
    pub fn bearer(&mut self, token: &SecretString) -> Result<(), HttpError> {
        let value = format!("Bearer {}", token.expose_secret().trim());
        self.insert_secret(AUTHORIZATION.as_str(), &value.into())
    }

    /// Adds `others`, which replace headers of the same name.
    pub fn extend(&mut self, others: &Self) {
        for (name, value) in &others.map {
            self.map.insert(name.clone(), value.clone());
        }
        self.secrets.extend(others.secrets.iter().cloned());
    }

    pub(crate) fn map(&self) -> &HeaderMap {
        &self.map
    }

    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(ExposeSecret::expose_secret)
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.map.keys()).finish()
    }
}

fn parts(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), HttpError> {
    let invalid = || HttpError::InvalidHeader {
        name: name.to_owned(),
    };
    let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_error| invalid())?;
    let value = HeaderValue::from_str(value).map_err(|_error| invalid())?;
    Ok((parsed, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_names_only() {
        let mut headers = Headers::new();
        headers.insert("x-team", "blue").unwrap();
        headers.insert_secret("api-key", &" hush\n".into()).unwrap();
        headers.bearer(&"hush2".into()).unwrap();
        assert_eq!(
            format!("{headers:?}"),
            r#"["x-team", "api-key", "authorization"]"#
        );
        assert_eq!(headers.map().get("api-key").unwrap(), "hush");
    }

    #[test]
    fn credentials_are_secret_with_their_scheme_and_without() {
        let mut headers = Headers::new();
        headers.bearer(&" t-1 ".into()).unwrap();
        headers
            .insert_secret("Authorization", &"Basic  t-2".into())
            .unwrap();
        headers.insert_secret("x-team", &"blue sky".into()).unwrap();
        let secrets: Vec<&str> = headers.secrets().collect();
        assert_eq!(secrets, ["Bearer t-1", "t-1", "Basic  t-2", "t-2", "blue sky"]);
    }

    #[test]
    fn a_value_no_header_can_carry_is_an_error_without_it() {
        let error = Headers::new()
            .insert_secret("api-key", &"hu\nsh".into())
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "the value for header `api-key` contains characters that are not allowed in a header"
        );
    }
}
