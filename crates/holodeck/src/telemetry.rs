use std::io;

use holodeck_backend_api::{BackendError, Occasion};
use holodeck_http::HttpOptions;
use holodeck_model::{Env, Load, LoadedAgent, env};
use holodeck_otel_bridge::{Telemetry, TelemetryOptions};

/// Starts what the agent's `observability` asks for. A replayed run exports nothing: no model was asked.
pub(crate) fn start(
    agent: &LoadedAgent,
    occasion: Occasion,
    env: &Env,
    replayed: bool,
) -> Result<Telemetry, BackendError> {
    if replayed {
        return Ok(Telemetry::off());
    }
    let run = match occasion {
        Occasion::Test => "holodeck test",
        Occasion::Run => "holodeck run",
        Occasion::Chat => "holodeck chat",
        Occasion::Serve => "holodeck serve",
    };
    let options = TelemetryOptions {
        http: HttpOptions::from_variables(|name| env.get(name).map(str::to_owned)),
        console: || Box::new(io::stderr()),
        run: run.to_owned(),
        parent: env.non_blank(env::TRACEPARENT).map(str::to_owned),
    };
    Telemetry::start(agent, &options).map_err(|problem| BackendError::Init {
        message: problem.message,
    })
}

/// Says at load time what of `observability` can't work or has no effect.
pub(crate) fn check(load: &mut Load) {
    let found = load.agent.as_ref().map(holodeck_otel_bridge::check);
    load.diagnostics.extend(found.unwrap_or_default());
    if load.has_errors() {
        load.agent = None;
    }
}
