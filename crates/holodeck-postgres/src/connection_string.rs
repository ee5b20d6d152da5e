//! Reads connection strings in both forms, including the TLS settings that the driver does not know.

use std::{error::Error as _, path::PathBuf, time::Duration};

use holodeck_http::Tls;
use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};

use crate::{Target, TargetError, tls::Maker};

/// How long a connection is awaited if the connection string does not say.
const CONNECT: Duration = Duration::from_secs(10);

/// The settings of a connection string, which may be changed before they become a [`Target`].
#[derive(Default)]
pub struct ConnectionString {
    config: Config,
    mode: Option<String>,
    root: Option<String>,
}

impl ConnectionString {
    /// Reads both forms: `postgresql://user@host:5432/database` and `host=… user=…`.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        let text = text.trim();
        let mut parsed = Self::default();
        let rest = match text.split_once("://") {
            Some((scheme, rest)) => {
                // `postgresql+psycopg://` is the form of Python's libraries.
                let driverless = scheme.split('+').next().unwrap_or_default();
                if !matches!(driverless, "postgres" | "postgresql") {
                    return Err(TargetError::new("must begin with postgresql://"));
                }
                if rest.split('?').next().unwrap_or_default().matches('@').count() > 1 {
                    // Otherwise a part of the password would become the host name, which is shown.
                    return Err(TargetError::new(
                        "has several `@`; write one in a user or a password as %40",
                    ));
                }
                format!("postgresql://{}", parsed.take_tls_from_query(rest))
            }
            None => parsed
                .take_tls_from_words(text)
                .ok_or_else(|| TargetError::new("is neither a URL nor a list of key=value"))?,
        };
        parsed.config = rest.parse::<Config>().map_err(|error| {
            // For a list of words, the cause may repeat a piece of an unquoted password.
            let cause = error.source().filter(|_| text.contains("://"));
            let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
            TargetError::new(format!("can't be read{cause}"))
        })?;
        Ok(parsed)
    }

    /// The driver's settings.
    pub fn config_mut(&mut self) -> &mut Config {
        &mut self.config
    }

    /// Sets `sslmode` or `sslrootcert`; whether `key` is one of them.
    pub fn set_tls(&mut self, key: &str, value: &str) -> bool {
        match key {
            "sslmode" => self.mode = Some(value.to_owned()),
            "sslrootcert" => self.root = Some(value.to_owned()),
            _ => return false,
        }
        true
    }

    /// How to connect. Between machines, TLS is used where the server supports it, and its certificate must be valid.
    pub fn into_target(self) -> Result<Target, TargetError> {
        let Self {
            mut config,
            mode,
            root,
        } = self;
        if config.get_hosts().is_empty() {
            return Err(TargetError::new(
                "names no host (postgresql://user@host:5432/database)",
            ));
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_application_name().is_none() {
            config.application_name("holodeck");
        }
        let mode = match mode.as_deref() {
            None if is_local(&config) => SslMode::Disable,
            Some("disable") => SslMode::Disable,
            None | Some("allow" | "prefer") => SslMode::Prefer,
            Some("require" | "verify-ca" | "verify-full") => SslMode::Require,
            Some(other) => {
                return Err(TargetError::new(format!(
                    "has the unknown sslmode `{other}`; modes: disable, prefer, require, verify-ca, verify-full"
                )));
            }
        };
        config.ssl_mode(mode);
        if mode == SslMode::Disable {
            return Ok(Target::new(config, None));
        }
        let root = root.filter(|root| root != "system").map(PathBuf::from);
        let tls = Tls::new(root.as_deref(), &["postgresql"])
            .map_err(|error| TargetError::new(format!("needs TLS: {error}")))?;
        Ok(Target::new(config, Some(Maker(tls))))
    }

    /// The URL without the keys that the driver does not support.
    fn take_tls_from_query(&mut self, url: &str) -> String {
        let Some((before, query)) = url.split_once('?') else {
            return url.to_owned();
        };
        let kept: Vec<&str> = query
            .split('&')
            .filter(|pair| {
                let mut decoded = url::form_urlencoded::parse(pair.as_bytes());
                !decoded
                    .next()
                    .is_some_and(|(key, value)| self.set_tls(&key, &value))
            })
            .collect();
        if kept.is_empty() {
            before.to_owned()
        } else {
            format!("{before}?{}", kept.join("&"))
        }
    }

    /// Splits `key=value` and `key='va\'lue'`; `None` for any other syntax.
    fn take_tls_from_words(&mut self, text: &str) -> Option<String> {
        let mut kept = String::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let whole = rest;
            let (key, after) = rest.split_once('=')?;
            let after = after.trim_start();
            let (value, after) = if let Some(quoted) = after.strip_prefix('\'') {
                let mut value = String::new();
                let mut chars = quoted.char_indices();
                let end = loop {
                    match chars.next()? {
                        (at, '\'') => break at + 1,
                        (_, '\\') => value.push(chars.next()?.1),
                        (_, c) => value.push(c),
                    }
                };
                (value, quoted.get(end..)?)
            } else {
                let end = after.find(char::is_whitespace).unwrap_or(after.len());
                (after.get(..end)?.to_owned(), after.get(end..)?)
            };
            if !self.set_tls(key.trim(), &value) {
                kept.push_str(whole.get(..whole.len() - after.len())?);
                kept.push(' ');
            }
            rest = after.trim_start();
        }
        Some(kept)
    }
}

impl std::fmt::Debug for ConnectionString {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectionString").finish_non_exhaustive()
    }
}

fn is_local(config: &Config) -> bool {
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => {
            let address = name.parse::<std::net::IpAddr>();
            name == "localhost" || address.is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    })
}
