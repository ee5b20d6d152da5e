//! The odds of the numbers in an answer, from the endpoint's log-probabilities.

use holodeck_backend_api::{AgentBackend, ExecutionResult, NumberOdds, TurnRequest, collect};
use holodeck_testkit::{ModelServer, Reply};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::setup::{agent, agent_of, backend, model_of};

const FORMAT: &str =
    "response_format:\n  type: object\n  properties:\n    days: {type: integer}\n  required: [days]\n";

/// Whether the days are 30, of which the model is not sure.
fn unsure() -> Reply {
    let days: &[(&str, f64)] = &[("30", 0.75), ("14", 0.25), ("many", 0.0)];
    Reply::nothing().and_tokens([("{\"days\":", &[][..]), (" ", &[]), ("30", days), ("}", &[])])
}

async fn ask_for_odds(backend: &dyn AgentBackend) -> ExecutionResult {
    let mut request = TurnRequest::new("how long?");
    request.number_odds = true;
    collect(backend.start(request)).await.unwrap()
}

fn rounded(result: &ExecutionResult) -> Vec<NumberOdds> {
    let mut found = result.number_odds.clone();
    for (_, odds) in found.iter_mut().flat_map(|number| &mut number.odds) {
        *odds = (*odds * 1e9).round() / 1e9;
    }
    found
}

#[tokio::test]
async fn odds_are_asked_for_only_where_they_are_wanted() {
    for reply in [unsure(), unsure().as_json()] {
        let server = ModelServer::answering(move |_| reply.clone());
        let backend = backend(&agent_of(&server, FORMAT));
        let result = ask_for_odds(&backend).await;
        let expected = NumberOdds {
            field: "days".to_owned(),
            value: 30,
            odds: vec![(30, 0.75), (14, 0.25)],
        };
        assert_eq!(rounded(&result), [expected]);
        assert_eq!(result.structured_output, Some(json!({"days": 30})));
        let plain = backend.invoke_once("how long?", &[]).await.unwrap();
        assert_eq!(plain.number_odds, []);
        let requests = server.finish();
        assert_eq!(
            [&requests[0].body["logprobs"], &requests[0].body["top_logprobs"]],
            [&json!(true), &json!(20)]
        );
        assert!(requests[1].body.get("logprobs").is_none() && requests[1].body.get("top_logprobs").is_none());
    }
}

#[tokio::test]
async fn an_endpoint_that_refuses_them_is_asked_once_more_and_then_never_again() {
    for (status, message) in [
        (400, "Unknown parameter: 'top_logprobs'."),
        (403, "You are not allowed to request logprobs from this model"),
    ] {
        let server = ModelServer::answering(move |request| {
            if request.body.get("logprobs").is_some() {
                Reply::openai_error(status, message, None, None)
            } else {
                Reply::text("{\"days\": 30}")
            }
        });
        let backend = backend(&agent_of(&server, FORMAT));
        for requests in [2, 3] {
            let result = ask_for_odds(&backend).await;
            assert_eq!(result.structured_output, Some(json!({"days": 30})));
            assert_eq!((result.number_odds, server.requests().len()), (vec![], requests));
        }
        server.finish();
    }
}

#[tokio::test]
async fn an_endpoint_may_refuse_the_format_too() {
    for message in ["unknown field response_format", "a json_schema is not supported"] {
        let server = ModelServer::answering(move |request| {
            if request.body.get("response_format").is_some() {
                Reply::openai_error(400, message, None, None)
            } else {
                unsure()
            }
        });
        let result = ask_for_odds(&backend(&agent_of(&server, FORMAT))).await;
        assert_eq!(rounded(&result).len(), 1, "{message}");
        server.finish();
    }
}

#[tokio::test]
async fn another_error_is_no_refusal() {
    let server = ModelServer::answering(|_| Reply::openai_error(400, "the prompt is too long", None, None));
    let backend = backend(&agent_of(&server, FORMAT));
    let mut request = TurnRequest::new("how long?");
    request.number_odds = true;
    let error = collect(backend.start(request)).await.unwrap_err();
    assert!(error.error.to_string().contains("too long"));
    assert_eq!(server.finish().len(), 1);
}

#[tokio::test]
async fn a_reasoning_model_is_not_asked() {
    let server = ModelServer::answering(|_| Reply::text("{\"days\": 30}"));
    let agent = agent(&format!("{}\n  reasoning: true", model_of(&server)), FORMAT);
    ask_for_odds(&backend(&agent)).await;
    assert!(server.finish()[0].body.get("logprobs").is_none());
}

#[tokio::test]
async fn odds_of_an_answer_that_was_repaired_are_those_of_the_repaired_one() {
    let wrong: &[(&str, f64)] = &[("7", 1.0)];
    let server = ModelServer::replies([
        Reply::nothing().and_tokens([("{\"hours\":", &[][..]), ("7", wrong), ("}", &[])]),
        Reply::text("{\"days\": 30}"),
    ]);
    let result = ask_for_odds(&backend(&agent_of(&server, FORMAT))).await;
    assert_eq!(
        (result.structured_output, result.number_odds),
        (Some(json!({"days": 30})), vec![])
    );
    server.finish();
}
