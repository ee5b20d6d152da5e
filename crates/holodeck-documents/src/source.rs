//! Decides whether a tool's `source` is a path on this machine or a resource on the web.

use std::path::PathBuf;

use holodeck_http::{HttpUrl, InvalidUrl};

/// The meaning of a tool's `source`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file, a folder or a glob, as it was written.
    Files(String),
    /// A resource on the web.
    Url(HttpUrl),
}

/// Why a `source` can't be read.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// Its kind is not supported yet.
    #[error("`{scheme}://` sources are not supported yet; copy the files into a folder, or use `https://`")]
    NotBuilt {
        /// `s3` or `az`.
        scheme: &'static str,
    },
    /// Its kind is unknown.
    #[error("`{scheme}://` is not a supported source; use a path or a URL with `https`, `http` or `file`")]
    Scheme {
        /// The part before `://`.
        scheme: String,
    },
    /// A `file://` URL for another machine.
    #[error("`{0}` is not a file on this machine")]
    NoFile(String),
    /// An invalid URL.
    #[error(transparent)]
    Url(#[from] InvalidUrl),
}

impl Source {
    /// Reads a `source` as it was written.
    pub fn parse(text: &str) -> Result<Self, SourceError> {
        let text = text.trim();
        let Some((scheme, _)) = text.split_once("://") else {
            return Ok(Self::Files(text.to_owned()));
        };
        match scheme.to_ascii_lowercase().as_str() {
            "http" | "https" => Ok(Self::Url(HttpUrl::parse(text)?)),
            "file" => Ok(Self::Files(file_path(text)?)),
            "s3" => Err(SourceError::NotBuilt { scheme: "s3" }),
            "az" => Err(SourceError::NotBuilt { scheme: "az" }),
            other => Err(SourceError::Scheme {
                scheme: other.to_owned(),
            }),
        }
    }
}

/// The path of a `file://` URL. Without a third slash it is relative, a common notation.
fn file_path(text: &str) -> Result<String, SourceError> {
    let none = || SourceError::NoFile(text.to_owned());
    let rest = text.get("file://".len()..).ok_or_else(none)?;
    if rest.starts_with('/') || rest.starts_with("localhost/") {
        let url = url::Url::parse(text).map_err(|_error| none())?;
        let path: PathBuf = url.to_file_path().map_err(|()| none())?;
        return path.into_os_string().into_string().map_err(|_path| none());
    }
    if rest.is_empty() {
        return Err(none());
    }
    Ok(rest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_urls_and_unsupported_sources() {
        let files = |text: &str| match Source::parse(text).unwrap() {
            Source::Files(path) => path,
            Source::Url(url) => panic!("{url}"),
        };
        assert_eq!(files(" docs/ "), "docs/");
        assert_eq!(files("C:\\docs"), "C:\\docs");
        assert_eq!(files("file:///a/b%20c.md"), "/a/b c.md");
        assert_eq!(files("file://docs/a.md"), "docs/a.md");
        assert!(matches!(
            Source::parse("HTTPS://example.com/x"),
            Ok(Source::Url(_))
        ));
        let errors: Vec<String> = ["s3://bucket/x", "az://c/x", "ftp://h/x", "file://", "http://"]
            .map(|text| Source::parse(text).unwrap_err().to_string())
            .into();
        insta::assert_snapshot!(errors.join("\n"));
    }
}
