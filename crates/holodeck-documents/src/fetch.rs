//! Downloads files from the web within limits on size, time and addresses, and keeps unchanged ones.
//!
//! By default it must not reach private networks, even through a redirect.

mod cache;
mod error;

use std::path::PathBuf;
use std::time::Duration;

use holodeck_http::{
    CallOptions, Headers, HttpClient, HttpError, HttpOptions, HttpUrl, Reach, Response, SetupError,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Format;
use crate::text::charset_of_media_type;
use cache::{Cache, CachedFile};
pub use error::FetchError;

/// Maximum number of redirects.
const MOST_REDIRECTS: usize = 5;

/// Limits of a download.
#[derive(Clone, Debug)]
pub struct FetchOptions {
    /// Time for the whole download, including redirects and retries.
    pub timeout: Duration,
    /// The largest file.
    pub max_bytes: u64,
    /// Which addresses are allowed.
    pub addresses: Addresses,
    /// Where files are cached, so that unchanged files are not downloaded again.
    pub cache: Option<PathBuf>,
}

/// Which addresses are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// Public addresses only: an agent's file must not open access to the network it runs in.
    Public,
    /// Also addresses of this machine and of private networks.
    Any,
}

impl Default for FetchOptions {
    /// A minute, 500 MiB, public addresses, no cache.
    fn default() -> Self {
        Self {
            timeout: Duration::from_mins(1),
            max_bytes: 500 * 1024 * 1024,
            addresses: Addresses::Public,
            cache: None,
        }
    }
}

/// A downloaded file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Its final URL, without secrets.
    pub url: String,
    /// Its name: the last part of the URL's path, or the host.
    pub name: String,
    /// Its format, according to its media type or else its name.
    pub format: Option<Format>,
    /// The character set that its server declares.
    pub charset: Option<String>,
    /// Its content.
    pub bytes: Vec<u8>,
    /// Whether it was transferred this time.
    pub sent: Sent,
}

/// Whether a file was transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The server sent it.
    Now,
    /// It has not changed; the cached file is used.
    Before,
}

/// Downloads files; clones share connections.
#[derive(Clone, Debug)]
pub struct Fetcher {
    client: HttpClient,
    options: FetchOptions,
}

impl Fetcher {
    /// A fetcher with the proxies and certificates of `http`.
    pub fn new(http: &HttpOptions, options: FetchOptions) -> Result<Self, SetupError> {
        let client = HttpClient::new(&HttpOptions {
            max_response_bytes: options.max_bytes,
            reach: match options.addresses {
                Addresses::Public => Reach::Public,
                Addresses::Any => Reach::Anywhere,
            },
            ..http.clone()
        })?;
        Ok(Self { client, options })
    }

    /// Downloads `url`.
    pub async fn fetch(&self, url: &HttpUrl, cancel: &CancellationToken) -> Result<Fetched, FetchError> {
        let timeout = self.options.timeout;
        let fetch = tokio::time::timeout(timeout, self.follow(url, Instant::now() + timeout));
        tokio::select! {
            () = cancel.cancelled() => Err(FetchError::Cancelled),
            fetched = fetch => fetched.unwrap_or_else(|_elapsed| Err(FetchError::Timeout {
                url: url.clone(),
                after: timeout,
            })),
        }
    }

    async fn follow(&self, first: &HttpUrl, deadline: Instant) -> Result<Fetched, FetchError> {
        let cache = self
            .options
            .cache
            .as_deref()
            .map(|folder| Cache::new(folder, first, self.options.max_bytes));
        let kept = match &cache {
            Some(cache) => cache.get().await,
            None => None,
        };
        let mut url = first.clone();
        for _ in 0..=MOST_REDIRECTS {
            // A validator (`etag`) is only valid for the address that issued it.
            let kept = kept.as_ref().filter(|kept| kept.is_of(&url));
            let answer = self.ask(&url, kept, deadline).await?;
            match (answer.status(), kept) {
                (304, Some(kept)) => return Ok(fetched(&url, kept.clone(), Sent::Before)),
                (200, _) => {
                    let new = CachedFile::of(&url, &answer);
                    let mut new = new.with(answer.bytes().await?.into());
                    if let Some(cache) = &cache {
                        new = cache.keep(new).await?;
                    }
                    return Ok(fetched(&url, new, Sent::Now));
                }
                (301 | 302 | 303 | 307 | 308, _) => {
                    let location = answer.header("location").unwrap_or_default();
                    if location.is_empty() {
                        return Err(FetchError::NoLocation { url });
                    }
                    let next = url.redirected(location).map_err(HttpError::from)?;
                    if url.is_https() && !next.is_https() {
                        return Err(FetchError::Unprotected { from: url, to: next });
                    }
                    url = next;
                }
                (status, _) => return Err(FetchError::NoContent { url, status }),
            }
        }
        Err(FetchError::Redirects { url: first.clone() })
    }

    async fn ask(
        &self,
        url: &HttpUrl,
        kept: Option<&CachedFile>,
        deadline: Instant,
    ) -> Result<Response, FetchError> {
        let mut headers = Headers::new();
        headers.insert("accept", "*/*")?;
        if let Some(kept) = kept {
            if let Some(tag) = &kept.about.etag {
                headers.insert("if-none-match", tag)?;
            }
            if let Some(date) = &kept.about.last_modified {
                headers.insert("if-modified-since", date)?;
            }
        }
        let options = CallOptions {
            timeout: Some(deadline.saturating_duration_since(Instant::now())),
            ..CallOptions::default()
        };
        let statuses = [301, 302, 303, 304, 307, 308];
        Ok(self.client.get_or(url, &headers, &options, &statuses).await?)
    }
}

fn fetched(url: &HttpUrl, kept: CachedFile, sent: Sent) -> Fetched {
    let name = name(url);
    let by_name = Format::of_name(&name);
    let declared = kept.about.media_type.as_deref().and_then(Format::of_media_type);
    // Servers use `text/plain` for everything unknown.
    let format = declared
        .filter(|declared| *declared != Format::Text || by_name.is_none())
        .or(by_name);
    Fetched {
        url: url.to_string(),
        name,
        format,
        charset: kept.about.media_type.as_deref().and_then(charset_of_media_type),
        bytes: kept.bytes,
        sent,
    }
}

fn name(url: &HttpUrl) -> String {
    let last = url
        .path()
        .rsplit('/')
        .find(|part| !part.is_empty())
        .unwrap_or_default();
    let mut bytes = Vec::with_capacity(last.len());
    let mut rest = last.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| byte == b'%');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        let decoded = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(decoded.unwrap_or(byte));
        rest = if decoded.is_some() {
            after.get(2..).unwrap_or_default()
        } else {
            after
        };
    }
    let name = String::from_utf8_lossy(&bytes).replace(['/', '\\', '\0'], "_");
    if name.is_empty() {
        url.host().to_owned()
    } else {
        name
    }
}
