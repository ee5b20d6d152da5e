//! Waits for the browser's answer on 127.0.0.1: one path, one state, bounded requests.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use url::form_urlencoded;

use crate::login::error::foreign;
use crate::login::news::{Listening, LoginNews};

const PATH: &str = "/callback";

/// The largest head of a request.
const HEAD: usize = 16 * 1024;

/// How long a request may take to arrive; browsers open connections that they then do not use.
const PATIENCE: Duration = Duration::from_secs(20);

/// Connections at one time. Others wait.
const CONNECTIONS: usize = 16;

/// Listens for the redirect of the authorization server.
pub(crate) struct Listener {
    tcp: TcpListener,
    port: u16,
    /// Requests that are being read and answered.
    serving: JoinSet<Option<Request>>,
}

/// The parameters of a redirect that has the expected state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    Code {
        code: String,
        issuer: Option<String>,
    },
    /// An error of the authorization server, in its words.
    Error {
        reason: String,
        issuer: Option<String>,
    },
}

/// The meaning of a request to the listener.
#[derive(Debug, PartialEq, Eq)]
enum Request {
    Answer(Redirect),
    /// With another state, or without one.
    Foreign,
    /// Not a redirect at all, such as the request for an icon.
    Other,
    /// With parameters that are absent or repeated.
    Malformed(&'static str),
}

impl Listener {
    pub(crate) async fn bind(port: Option<u16>) -> io::Result<Self> {
        let tcp = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap_or(0)))).await?;
        let port = tcp.local_addr()?.port();
        Ok(Self {
            tcp,
            port,
            serving: JoinSet::new(),
        })
    }

    pub(crate) fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// The first redirect with `state`. Others are answered, named by `news` and change nothing.
    pub(crate) async fn first(&mut self, state: &str, news: Listening<'_>) -> Redirect {
        loop {
            match self.next(state).await {
                Request::Answer(redirect) => return redirect,
                Request::Foreign => news(LoginNews::ForeignAnswer),
                Request::Malformed(reason) => news(LoginNews::MalformedAnswer(reason)),
                Request::Other => {}
            }
        }
    }

    /// Names every further redirect with `state`, until it is dropped.
    pub(crate) async fn others(&mut self, state: &str, news: Listening<'_>) -> Infallible {
        loop {
            match self.next(state).await {
                Request::Answer(_) => news(LoginNews::SecondAnswer),
                Request::Foreign => news(LoginNews::ForeignAnswer),
                Request::Malformed(reason) => news(LoginNews::MalformedAnswer(reason)),
                Request::Other => {}
            }
        }
    }

    async fn next(&mut self, state: &str) -> Request {
        loop {
            tokio::select! {
                accepted = self.tcp.accept(), if self.serving.len() < CONNECTIONS => {
                    if let Ok((stream, _)) = accepted {
                        let (state, port) = (state.to_owned(), self.port);
                        self.serving.spawn(async move {
                            timeout(PATIENCE, serve(stream, &state, port)).await.ok().flatten()
                        });
                    }
                }
                Some(served) = self.serving.join_next() => {
                    if let Ok(Some(request)) = served {
                        return request;
                    }
                }
            }
        }
    }
}

/// Reads one request, answers it and says what it was.
async fn serve(mut stream: TcpStream, state: &str, port: u16) -> Option<Request> {
    let head = head(&mut stream).await?;
    let request = read(&head, state, port);
    let (status, text) = match &request {
        Request::Answer(Redirect::Code { .. }) => (
            "200 OK",
            "HoloDeck has the answer. Close this page and go back to the terminal.",
        ),
        Request::Answer(Redirect::Error { .. }) => (
            "200 OK",
            "The login was refused. The terminal says why; this page can be closed.",
        ),
        Request::Foreign => (
            "400 Bad Request",
            "This answer does not belong to the login that HoloDeck waits for.",
        ),
        Request::Malformed(_) => ("400 Bad Request", "This answer cannot be read."),
        Request::Other => ("404 Not Found", "There is nothing here."),
    };
    let page = format!("<!doctype html><meta charset=utf-8><title>HoloDeck</title><p>{text}</p>\n");
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
         content-security-policy: default-src 'none'\r\nreferrer-policy: no-referrer\r\ncache-control: no-store\r\n\
         connection: close\r\n\r\n{page}",
        page.len()
    );
    // The meaning of the request does not depend on whether the browser reads the page.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
    Some(request)
}

/// The head of a request; `None` if it is too long or does not end.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    loop {
        let count = stream.read(&mut part).await.ok()?;
        head.extend_from_slice(part.get(..count)?);
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            return String::from_utf8(head).ok();
        }
        if count == 0 || head.len() > HEAD {
            return None;
        }
    }
}

fn read(head: &str, state: &str, port: u16) -> Request {
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if method != Some("GET") || path != PATH {
        return Request::Other;
    }
    // A page of another site may have this address under a name of its own.
    let host = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim())
    });
    if host != Some(format!("127.0.0.1:{port}").as_str()) {
        return Request::Foreign;
    }
    let mut fields: [(&str, Option<String>); 5] =
        ["state", "code", "iss", "error", "error_description"].map(|name| (name, None));
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let Some((_, field)) = fields.iter_mut().find(|(own, _)| *own == name) else {
            continue;
        };
        if field.replace(value.into_owned()).is_some() {
            return Request::Malformed("it repeats a parameter");
        }
    }
    let [(_, given), (_, code), (_, issuer), (_, error), (_, description)] = fields;
    if given.as_deref() != Some(state) {
        return Request::Foreign;
    }
    match (code, error) {
        (Some(_), Some(_)) => Request::Malformed("it has both `code` and `error`"),
        (Some(code), None) if !code.is_empty() => Request::Answer(Redirect::Code { code, issuer }),
        (None, Some(error)) => {
            let reason = match description {
                Some(description) => format!("{error} ({description})"),
                None => error,
            };
            Request::Answer(Redirect::Error {
                reason: foreign(&reason),
                issuer,
            })
        }
        _ => Request::Malformed("it has no `code`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(target: &str) -> Request {
        read(
            &format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:7777\r\n\r\n"),
            "s-1",
            7777,
        )
    }

    #[test]
    fn only_the_redirect_of_this_login_is_an_answer() {
        let code = |issuer: Option<&str>| {
            Request::Answer(Redirect::Code {
                code: "c-2".to_owned(),
                issuer: issuer.map(str::to_owned),
            })
        };
        assert_eq!(get("/callback?code=c-2&state=s-1"), code(None));
        assert_eq!(
            get("/callback?state=s-1&iss=https%3A%2F%2Fas.test&code=c-2&x=y"),
            code(Some("https://as.test"))
        );
        assert_eq!(
            get("/callback?error=access_denied&error_description=not%20today%1b%5B31m&state=s-1"),
            Request::Answer(Redirect::Error {
                reason: "access_denied (not today\\u{1b}[31m)".to_owned(),
                issuer: None
            })
        );
        for foreign in [
            "/callback?code=c-2",
            "/callback?code=c-2&state=",
            "/callback?code=c-2&state=s-10",
            "/callback?code=c-2&state=S-1",
            "/callback?error=access_denied",
            "/callback?error=access_denied&state=other",
            "/callback",
        ] {
            assert_eq!(get(foreign), Request::Foreign, "{foreign}");
        }
        for malformed in [
            "/callback?code=c-2&code=c-3&state=s-1",
            "/callback?code=c-2&state=s-1&state=s-2",
            "/callback?code=c-2&state=s-1&iss=a&iss=b",
            "/callback?code=c-2&error=e&state=s-1",
            "/callback?code=&state=s-1",
            "/callback?state=s-1",
        ] {
            assert!(matches!(get(malformed), Request::Malformed(_)), "{malformed}");
        }
        for other in ["/favicon.ico", "/", "/callback/x?code=c-2&state=s-1", "*"] {
            assert_eq!(get(other), Request::Other, "{other}");
        }
    }

    #[test]
    fn another_method_or_host_is_not_the_browser_that_was_redirected() {
        let ask = |method: &str, host: &str| {
            let head = format!("{method} /callback?code=c-2&state=s-1 HTTP/1.1\r\n{host}\r\n\r\n");
            read(&head, "s-1", 7777)
        };
        assert_eq!(ask("POST", "Host: 127.0.0.1:7777"), Request::Other);
        for host in [
            "Host: evil.test:7777",
            "Host: localhost:7777",
            "Host: 127.0.0.1:7778",
            "X: y",
        ] {
            assert_eq!(ask("GET", host), Request::Foreign, "{host}");
        }
        assert!(matches!(ask("GET", "host:127.0.0.1:7777"), Request::Answer(_)));
    }
}
