//! Tests that a client limited to public addresses refuses this machine by address and by name.

use holodeck_http::{
    ConnectReason, Headers, HttpClient, HttpError, HttpOptions, HttpUrl, ProxyOptions, Reach,
};

use crate::once;
use crate::server::{Server, ok_json, status};

fn public(proxy: ProxyOptions) -> HttpClient {
    HttpClient::new(&HttpOptions {
        reach: Reach::Public,
        proxy,
        ..HttpOptions::default()
    })
    .unwrap()
}

async fn refused(client: &HttpClient, url: &str) -> String {
    let url = HttpUrl::parse(url).unwrap();
    match client.get(&url, &Headers::new(), &once()).await.unwrap_err() {
        HttpError::Connect {
            reason: ConnectReason::NotPublic(place),
            ..
        } => place,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn this_machine_is_refused_by_address_and_by_name() {
    let server = Server::start(vec![ok_json("{}")]).await;
    let port = server.url.to_string().rsplit(':').next().unwrap().to_owned();
    let client = public(ProxyOptions::default());
    assert_eq!(
        refused(&client, &format!("http://127.0.0.1:{port}")).await,
        "127.0.0.1"
    );
    assert_eq!(
        refused(&client, &format!("http://localhost:{port}")).await,
        "localhost"
    );
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn a_proxy_may_be_near_but_is_not_asked_for_what_is_near() {
    let proxy = Server::start(vec![ok_json("{}")]).await;
    let client = public(ProxyOptions {
        http: Some(
            proxy
                .url
                .origin()
                .to_string()
                .replace("127.0.0.1", "localhost")
                .into(),
        ),
        ..ProxyOptions::default()
    });
    refused(&client, "http://10.0.0.1/x").await;
    assert_eq!(proxy.requests().len(), 0);
    let url = HttpUrl::parse("http://example.com/x").unwrap();
    client.get(&url, &Headers::new(), &once()).await.unwrap();
    assert_eq!(proxy.requests().len(), 1);
}

#[tokio::test]
async fn a_status_that_was_asked_for_is_an_answer() {
    let server = Server::start(vec![status("304 Not Modified", "ETag: \"x\"\r\n", "")]).await;
    let client = HttpClient::new(&HttpOptions::default()).unwrap();
    let answer = client
        .get_or(&server.url, &Headers::new(), &once(), &[304])
        .await
        .unwrap();
    assert_eq!((answer.status(), answer.header("etag")), (304, Some("\"x\"")));
    let error = client
        .get_or(&server.url, &Headers::new(), &once(), &[301])
        .await
        .unwrap_err();
    assert_eq!(error.status(), Some(304));
}
