//! Routes, connections, and the end of a server.

use std::{convert::Infallible, future::pending, pin::pin, sync::Arc, time::Duration};

use axum::{
    Router, middleware,
    routing::{delete, get, post},
};
use http::StatusCode;
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc::UnboundedReceiver},
    time::{sleep, timeout},
};

use crate::{
    App, approvals, awp, chat, completions,
    connection::Watched,
    files, guard, idempotency,
    log::log_request,
    markdown, masking, messages, openai_errors, operation, own_ids, page,
    problem::Problem,
    repeats::{Kind, Peer},
    responses, runs, sessions, socket, whole,
};

/// Time limit for connections to end after the streams on them have.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// Connections for probes when all others are in use.
const SPARE_CONNECTIONS: usize = 32;

/// How long such a connection lasts.
const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// Bytes that a connection collects before it writes them, and that the head of a request may have.
const CONNECTION_BUFFER: usize = 32 << 10;

/// Pause after the machine has no more file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until a first signal. Then new runs are refused, those that are active may end within `drain` or until a second
/// signal, the rest are cancelled, which stores what arrived, and open streams end with what is stored. Without its
/// sender, the channel never signals.
pub async fn serve(app: App, listener: TcpListener, mut signals: UnboundedReceiver<()>) {
    let mut signal = async || {
        if signals.recv().await.is_none() {
            pending::<()>().await;
        }
    };
    let end = async {
        signal().await;
        app.begin_draining();
        tokio::select! {
            () = app.drain() => {}
            () = sleep(app.options().drain) => {}
            () = signal() => {}
        }
        app.close().await;
    };
    tokio::select! {
        () = end => {}
        never = accept(&app, &listener) => match never {},
        never = app.repeats().keep_saying() => match never {},
    }
    app.repeats().say(Duration::ZERO);
    drop(listener);
    app.closing().cancel();
    app.tasks().close();
    // A client that does not take the end of its stream is disconnected.
    let _ = timeout(CLOSE_LIMIT, app.tasks().wait()).await;
    tracing::info!("stopped");
}

async fn accept(app: &App, listener: &TcpListener) -> Infallible {
    let (router, probes) = (router(app), probes(app));
    let places = Arc::new(Semaphore::new(app.options().max_connections));
    let spare = Arc::new(Semaphore::new(SPARE_CONNECTIONS));
    loop {
        // The semaphores are never closed.
        let of_probe = Arc::clone(&spare).acquire_owned().await.ok();
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                app.repeats().note(Kind::TooManyConnections, None);
                tracing::debug!(%error, "a connection was not accepted");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let peer = Peer(peer.ip());
        let app = app.clone();
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            drop(of_probe);
            let router = router.clone();
            app.clone().tasks().spawn(async move {
                connect(app, router, stream, peer, false).await;
                drop(place);
            });
        } else {
            app.repeats().note(Kind::TooManyConnections, None);
            let router = probes.clone();
            app.clone().tasks().spawn(async move {
                // A probe asks once, and at once.
                let _ = timeout(PROBE_LIMIT, connect(app, router, stream, peer, true)).await;
                drop(of_probe);
            });
        }
    }
}

async fn connect(app: App, router: Router, stream: TcpStream, peer: Peer, is_probe: bool) {
    // Small frames leave at once.
    let _ = stream.set_nodelay(true);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(app.options().header_timeout)
        .keep_alive(!is_probe)
        // What a client that reads nothing holds, besides the frame that waits for it.
        .max_buf_size(CONNECTION_BUFFER);
    let router = TowerToHyperService::new(router);
    let (stream, writing) = Watched::new(stream);
    let of_request = writing.clone();
    let service = service_fn(move |mut request: http::Request<Incoming>| {
        request.extensions_mut().insert(peer);
        // A WebSocket outlives this connection.
        request.extensions_mut().insert(of_request.clone());
        router.call(request)
    });
    let mut connection = pin!(
        http.serve_connection(TokioIo::new(stream), service)
            .with_upgrades()
    );
    tokio::select! {
        biased;
        // How a client leaves does not matter.
        _ = connection.as_mut() => return,
        () = writing.too_slow(&app) => return,
        () = app.closing().cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// The routes for operators, which have connections of their own.
fn probe_routes() -> Router<App> {
    Router::new()
        .route("/health", get(operation::health))
        .route("/ready", get(operation::ready))
}

/// The routes on the spare connections, when all others are in use.
fn probes(app: &App) -> Router {
    probe_routes()
        .fallback(too_many_connections)
        .layer(middleware::from_fn_with_state(app.clone(), log_request))
        .with_state(app.clone())
}

async fn too_many_connections() -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "TOO_MANY_CONNECTIONS",
        "all connections of the server are in use",
    )
    .retry_after(5)
}

/// All that is served.
fn router(app: &App) -> Router {
    let mut router = probe_routes()
        .route("/", get(page::page))
        .route("/health/agent", get(operation::agent_health))
        .route("/metrics", get(operation::metrics))
        .route("/openapi.json", get(operation::openapi))
        .route("/docs", get(operation::docs))
        .route("/tools", get(operation::tools));
    if app.options().protocols.rest {
        router = router
            .route("/v1/sessions", get(sessions::list).post(sessions::create))
            .route("/v1/sessions/{id}", get(sessions::show).delete(sessions::delete))
            .route("/v1/sessions/{id}/messages", post(messages::send))
            .route("/v1/sessions/{id}/events", get(sessions::events))
            .route("/v1/sessions/{id}/fork", post(sessions::fork))
            .route("/v1/runs/{id}/events", get(runs::events))
            .route("/v1/runs/{id}/cancel", post(runs::cancel))
            .route("/v1/approvals", get(approvals::list))
            .route(
                "/v1/approvals/always",
                get(approvals::list_always).delete(approvals::revoke_always),
            )
            .route("/v1/approvals/{id}", post(approvals::answer))
            .route("/v1/files", get(files::list).post(files::upload))
            .route("/v1/files/{id}", delete(files::delete))
            .route("/v1/ws", get(socket::connect))
            .route("/v1/markdown", post(markdown::render))
            .route("/v1/models", get(completions::models))
            .route("/v1/models/{id}", get(completions::one_model))
            .route("/v1/responses", post(responses::create))
            .route("/v1/responses/{id}", get(responses::show))
            .route("/v1/chat/completions", post(completions::complete))
            .route("/agent/{agent}/chat", post(chat::chat))
            .route("/agent/{agent}/chat/stream", post(chat::stream))
            .route("/agent/{agent}/chat/multipart", post(chat::chat_form))
            .route("/agent/{agent}/chat/stream/multipart", post(chat::stream_form))
            .route("/sessions/{id}", delete(chat::delete));
    }
    if app.options().protocols.ag_ui {
        router = router.route("/awp", post(awp::run));
    }
    router
        .fallback(not_found)
        .method_not_allowed_fallback(not_allowed)
        .layer(middleware::from_fn(idempotency::check_header))
        .layer(middleware::from_fn_with_state(app.clone(), guard::guard))
        .layer(middleware::from_fn_with_state(app.clone(), masking::mask_problem))
        .layer(middleware::from_fn(openai_errors::translate))
        .layer(middleware::from_fn(own_ids::reveal))
        .layer(middleware::from_fn_with_state(app.clone(), whole::count))
        // Its own refusal, too.
        .layer(middleware::from_fn(openai_errors::translate))
        .layer(middleware::from_fn_with_state(app.clone(), log_request))
        .with_state(app.clone())
}

async fn not_found() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "NOT_FOUND",
        "there is nothing at this address; see /docs",
    )
}

async fn not_allowed() -> Problem {
    let detail = "this address has other methods; see /docs";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", detail)
}
