//! Tests that proxies are used with their credentials, except for loopback.

use holodeck_http::{Headers, HttpClient, HttpOptions, HttpUrl, LoopbackProxy, ProxyOptions, SetupError};
use pretty_assertions::assert_eq;

use crate::server::{Server, ok_json};
use crate::{once, quick};

fn through(proxy: &Server, no_proxy: Option<&str>, loopback: LoopbackProxy) -> HttpClient {
    let address = proxy.url.to_string();
    let address = address.trim_start_matches("http://").trim_end_matches("/v1");
    HttpClient::new(&HttpOptions {
        proxy: ProxyOptions {
            http: Some(format!("me:hush@{address}").into()),
            https: None,
            no_proxy: no_proxy.map(str::to_owned),
            loopback,
        },
        ..HttpOptions::default()
    })
    .unwrap()
}

#[tokio::test]
async fn a_proxy_is_used_with_its_credentials() {
    let proxy = Server::start(vec![ok_json("{}")]).await;
    let client = through(&proxy, Some("other.test"), LoopbackProxy::Bypass);
    let url = HttpUrl::parse("http://api.test/v1").unwrap();
    client.get(&url, &Headers::new(), &quick()).await.unwrap();
    let request = &proxy.requests()[0];
    assert!(
        request.starts_with("GET http://api.test/v1 HTTP/1.1\r\n"),
        "{request}"
    );
    assert!(
        request.contains("proxy-authorization: Basic bWU6aHVzaA=="),
        "{request}"
    );
}

#[tokio::test]
async fn loopback_goes_direct_unless_configured() {
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        for (loopback, expected) in [(LoopbackProxy::Bypass, 0), (LoopbackProxy::Use, 1)] {
            let proxy = Server::start(vec![ok_json("{}")]).await;
            let url = HttpUrl::parse(&format!("http://{host}:1/")).unwrap();
            let client = through(&proxy, None, loopback);
            let options = once();
            let answer = client.get(&url, &Headers::new(), &options).await;
            assert_eq!(answer.is_ok(), expected == 1, "{host} {loopback:?}");
            assert_eq!(proxy.requests().len(), expected, "{host} {loopback:?}");
        }
    }
}

#[test]
fn an_unusable_proxy_is_named_without_its_value() {
    for value in ["socks5://me:hush@host:1", "http://me:hush@:x"] {
        let options = HttpOptions {
            proxy: ProxyOptions {
                https: Some(value.into()),
                ..ProxyOptions::default()
            },
            ..HttpOptions::default()
        };
        let error = HttpClient::new(&options).unwrap_err();
        assert!(
            matches!(
                error,
                SetupError::Proxy {
                    setting: "HTTPS_PROXY"
                }
            ),
            "{error:?}"
        );
        assert!(!format!("{error} {error:?}").contains("hush"));
    }
}
