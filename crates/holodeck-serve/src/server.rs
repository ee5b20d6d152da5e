//! Routes, connections, and the end of a server.

use std::{convert::Infallible, future::pending, pin::pin, sync::Arc, time::Duration};

use axum::{
    Router, middleware,
    routing::{delete, get, post},
};
use http::StatusCode;
use hyper::server::conn::http1;
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
    App, approvals, awp, chat, completions, files, guard, messages, openai_errors, operation, page,
    problem::Problem, runs, sessions, socket,
};

/// Time limit for connections to end after the streams on them have.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

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
        let active = async {
            for agent in app.agents() {
                agent.service.drain().await;
            }
        };
        tokio::select! {
            () = active => {}
            () = sleep(app.options().drain) => {}
            () = signal() => {}
        }
        for agent in app.agents() {
            agent.service.close().await;
        }
    };
    tokio::select! {
        () = end => {}
        never = accept(&app, &listener) => match never {},
    }
    drop(listener);
    app.closing().cancel();
    app.tasks().close();
    // A client that does not take the end of its stream is disconnected.
    let _ = timeout(CLOSE_LIMIT, app.tasks().wait()).await;
}

async fn accept(app: &App, listener: &TcpListener) -> Infallible {
    let router = router(app);
    let places = Arc::new(Semaphore::new(app.options().max_connections));
    loop {
        // The semaphore is never closed.
        let place = Arc::clone(&places).acquire_owned().await.ok();
        match listener.accept().await {
            Ok((stream, _)) => {
                let connection = connect(app.clone(), router.clone(), stream);
                app.tasks().spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn connect(app: App, router: Router, stream: TcpStream) {
    // Small frames leave at once.
    let _ = stream.set_nodelay(true);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(app.options().header_timeout);
    let service = TowerToHyperService::new(router);
    let mut connection = pin!(
        http.serve_connection(TokioIo::new(stream), service)
            .with_upgrades()
    );
    tokio::select! {
        // How a client leaves does not matter.
        _ = connection.as_mut() => return,
        () = app.closing().cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// All that is served.
fn router(app: &App) -> Router {
    let mut router = Router::new()
        .route("/", get(page::page))
        .route("/health", get(operation::health))
        .route("/ready", get(operation::ready))
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
            .route("/v1/approvals/{id}", post(approvals::answer))
            .route("/v1/files", get(files::list).post(files::upload))
            .route("/v1/files/{id}", delete(files::delete))
            .route("/v1/ws", get(socket::connect))
            .route("/v1/models", get(completions::models))
            .route("/v1/models/{id}", get(completions::one_model))
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
        .layer(middleware::from_fn_with_state(app.clone(), guard::guard))
        .layer(middleware::from_fn(openai_errors::translate))
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
