use std::{io, sync::Arc};

use holodeck_backend_api::Occasion;
use holodeck_http::HttpOptions;
use holodeck_model::{Env, Load, LoadedAgent, Redactor, env};
use holodeck_otel_bridge::{Telemetry, TelemetryOptions};

/// Starts what the agent's `observability` asks for. A replayed run exports nothing: no model was asked.
pub(crate) fn start(
    agent: &LoadedAgent,
    occasion: Occasion,
    env: &Env,
    replayed: bool,
    redactor: Arc<Redactor>,
) -> Telemetry {
    if replayed {
        return Telemetry::off();
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
        redactor,
        parent: env.non_blank(env::TRACEPARENT).map(str::to_owned),
    };
    Telemetry::start(agent, &options)
}

/// Adds warnings about settings of `observability` that cannot work or have no effect.
pub(crate) fn check(load: &mut Load) {
    let found = load.agent.as_ref().map(holodeck_otel_bridge::check);
    load.diagnostics.extend(found.unwrap_or_default());
}
