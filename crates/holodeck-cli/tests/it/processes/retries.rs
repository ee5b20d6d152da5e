//! Endpoints that refuse requests for some time.

use holodeck_testkit::{ModelServer, Reply};

use crate::project::{Project, TWO_CASES, agent};

#[test]
fn a_timeout_names_the_last_refusal_and_a_long_wait_its_reason() {
    for (status, message) in [(429, "slow down"), (502, "upstream is gone")] {
        let server =
            ModelServer::answering(move |_| Reply::openai_error(status, message, None, None).retry_after(30));
        let project = Project::with(&agent(&server.url(), TWO_CASES));
        let ran = project.run(&["test", "-n", "1", "--timeout", "0.5"]).exits(3);
        assert!(
            ran.all().contains("timeout exceeded; the last attempt failed: "),
            "{}",
            ran.all()
        );
        assert!(ran.all().contains(&status.to_string()), "{}", ran.all());
        assert!(ran.stderr.contains("; retrying in 3"), "{}", ran.all());
        assert_eq!(project.journals().len(), 1);
        let asked = project
            .run(&["run", "--timeout", "0.5", "agent.yaml", "q"])
            .exits(3);
        assert!(
            asked
                .stderr
                .contains("timeout exceeded; the last attempt failed: "),
            "{}",
            asked.all()
        );
        server.finish();
    }
}
