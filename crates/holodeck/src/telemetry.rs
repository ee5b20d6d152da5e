use std::{io, sync::Arc};

use holodeck_backend_api::Occasion;
use holodeck_http::HttpOptions;
use holodeck_model::{Env, Redactor, ResolvedAgent, env};
use holodeck_otel_bridge::{Telemetry, TelemetryOptions};
use holodeck_yaml::Load;

/// Starts what the agent's `observability` enables. A replayed run exports nothing because it calls no model.
pub(crate) fn start(
    agent: &ResolvedAgent,
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
    let Some(agent) = &load.agent else { return };
    let mut found = holodeck_otel_bridge::check(agent);
    for diagnostic in &mut found {
        let place = diagnostic
            .pointer
            .as_deref()
            .and_then(|pointer| agent.locate(pointer));
        diagnostic.primary = place.or_else(|| agent.locate("observability"));
    }
    load.diagnostics.extend(found);
}
