//! Ways around the folders of an agent that the real CLI does not open, and the record of what was tried.

use std::{os::unix::fs::symlink, sync::Arc};

use holodeck_backend_api::Zone;
use holodeck_model::PathRef;
use holodeck_testkit::{AnthropicReply, AnthropicServer};
use serde_json::json;

use super::{
    files::{Disk, Who, results, written, yaml},
    setup::{OLDER, PINNED, Yaml, ask},
};

#[tokio::test]
async fn every_decision_about_a_path_outside_is_recorded_with_its_place_and_rule() {
    let disk = Disk::new();
    let calls = [
        (
            "Read",
            json!({"file_path": disk.at("out/file.txt")}),
            Zone::Outside,
            "out/file.txt",
        ),
        (
            "Read",
            json!({"file_path": disk.at("work/linked/file.txt")}),
            Zone::Outside,
            "out/deep/file.txt",
        ),
        (
            "Write",
            written(&disk.at("work/.git/hooks/pre-push")),
            Zone::Sensitive,
            "work/.git/hooks/pre-push",
        ),
    ];
    let reply = calls
        .iter()
        .fold(AnthropicReply::nothing(), |reply, (tool, arguments, ..)| {
            reply.and_tool_use(tool, arguments)
        });
    let rules = "  rules:\n  - {tools: Read, paths: ../out/deep/file.txt, decision: approve}";
    let server = AnthropicServer::replies([reply, AnthropicReply::text("done")]);
    let yaml = yaml(&server.url(), &disk, "acceptAll", rules);
    let turn = ask(yaml.options().unwrap(), "go").await;
    server.finish();
    assert_eq!(turn.approvals.len(), calls.len(), "{:#?}", turn.approvals);
    for (tool, arguments, zone, real) in &calls {
        let real = disk.at(real).canonicalize().unwrap_or_else(|_| disk.at(real));
        let real = real.display().to_string();
        let mut approvals = turn.approvals.iter();
        let found = approvals.find(|approval| {
            let basis = approval.basis.as_ref();
            basis.is_some_and(|basis| basis.paths.contains(&real))
        });
        let found = found.unwrap_or_else(|| panic!("{tool} {arguments}: {:#?}", turn.approvals));
        let basis = found.basis.as_ref().unwrap();
        assert_eq!(basis.zone, *zone, "{tool} {arguments}");
        let by_rule = real.ends_with("out/deep/file.txt");
        assert_eq!(
            basis.rule == "approvals.rules[0]",
            by_rule,
            "{tool} {arguments}: {}",
            basis.rule
        );
        assert!(!basis.rule.is_empty());
        assert_eq!(found.decision.is_approved(), by_rule, "{tool} {arguments}");
    }
}

/// A CLI that hides nothing in further folders does not search them, and no folder where a deny pattern begins above its own.
#[tokio::test]
async fn no_release_shows_what_it_must_not_read_in_a_further_folder() {
    for version in [OLDER, PINNED] {
        let disk = Disk::new();
        let rest = "  rules: [{tools: Grep, paths: '/**', decision: approve}]";
        let calls = ["out", "out/deep", ".", "work"].map(|folder| {
            let arguments = json!({"pattern": "needle", "path": disk.at(folder), "output_mode": "content"});
            ("Grep".to_owned(), arguments)
        });
        let yaml = |url: &str| {
            let mut yaml = yaml(url, &disk, "acceptAll", rest);
            let mut agent = (*yaml.agent.agent).clone();
            let claude = agent.config.claude.get_or_insert_default();
            let out = disk.at("out").display().to_string();
            claude.additional_directories.push(PathRef::new(&out, "/"));
            claude.disallowed_tools = Some(vec!["Read(../out/deep/**)".to_owned()]);
            yaml.agent.agent = Arc::new(agent);
            Yaml { version, ..yaml }
        };
        let (results, _) = results(yaml, &[calls.to_vec()], Who::Nobody, false).await;
        for (text, _) in &results[0] {
            for hidden in ["work/linked/file.txt", "work/.env", "work/results", "tmp/"] {
                assert!(
                    !text.contains(&format!("needle of {hidden}")),
                    "{version} {hidden}: {text}"
                );
            }
        }
        let (further, is_error) = &results[0][0];
        assert_eq!(
            further.contains("needle of out/file.txt"),
            version == PINNED,
            "{version}: {further}"
        );
        assert_eq!(*is_error, version != PINNED, "{version}: {further}");
        let (own, is_error) = &results[0][3];
        assert_eq!(
            own.contains("needle of work/file.txt"),
            version == PINNED,
            "{version}: {own}"
        );
        assert_eq!(*is_error, version != PINNED, "{version}: {own}");
    }
}

/// Other spellings of a path, as a model may try them.
fn spellings(disk: &Disk, file: &str) -> Vec<String> {
    let path = disk.at(file).display().to_string();
    let (folder, name) = path.rsplit_once('/').unwrap();
    vec![
        format!("{folder}//./{name}"),
        format!("{folder}/nowhere/../{name}"),
        format!("{path}/"),
        format!("{path}/."),
        format!(" {path} "),
        format!("\n{path}\n"),
        format!("\u{feff}{path}"),
        format!("\u{a0}{path}\u{3000}"),
        format!("{path}\0"),
        format!("{path}\0.txt"),
        format!("file://{path}"),
        format!("/proc/self/root{path}"),
        format!("/proc/thread-self/root{path}"),
        format!("/proc/self/cwd/../{}", file.trim_start_matches("work/")),
        format!("/proc/1/root{path}"),
        format!("/dev/fd/../root{path}"),
        format!("{}/sub/../../{file}", disk.at("work").display()),
        format!("~/../../../../../../..{path}"),
        format!("{}/le\u{301}/../{file}", disk.at("work").display()),
    ]
}

/// With every folder of the machine inside, and without: no spelling opens what is HoloDeck's own, and none leads outside.
#[tokio::test]
async fn no_spelling_of_a_path_leads_around_the_folders() {
    for has_all_folders in [false, true] {
        let disk = Disk::new();
        symlink(disk.at("out"), disk.at("work/l\u{e9}")).unwrap();
        let mut forbidden = vec!["work/.env", "work/results/a/run.json", "work/cases.yaml"];
        if !has_all_folders {
            forbidden.push("out/file.txt");
        }
        let mut batches = Vec::new();
        for file in &forbidden {
            let mut batch = Vec::new();
            for path in spellings(&disk, file) {
                batch.push(("Read".to_owned(), json!({"file_path": path})));
                let search = json!({"pattern": "needle", "path": path, "output_mode": "content"});
                batch.push(("Grep".to_owned(), search));
                batch.push((
                    "Write".to_owned(),
                    json!({"file_path": path, "content": "written"}),
                ));
            }
            batches.push(batch);
        }
        let search = |path: &str| {
            let arguments = json!({"pattern": "needle of (work/.env|work/results|tmp)", "path": path, "output_mode": "content"});
            ("Grep".to_owned(), arguments)
        };
        let root = disk.root.path().display().to_string();
        batches.push(vec![
            search(&root),
            search("/proc/self/cwd"),
            search(&format!("/proc/self/root{root}")),
            search(&disk.at("work/l\u{e9}/../..").display().to_string()),
        ]);
        let (results, _) = results(
            |url| {
                let mut yaml = yaml(url, &disk, "acceptAll", "");
                if has_all_folders {
                    let mut agent = (*yaml.agent.agent).clone();
                    let claude = agent.config.claude.get_or_insert_default();
                    claude.additional_directories.push(PathRef::new("/", "/"));
                    yaml.agent.agent = Arc::new(agent);
                }
                yaml
            },
            &batches,
            Who::Nobody,
            false,
        )
        .await;
        for (batch, results) in batches.iter().zip(&results) {
            for ((tool, arguments), (text, _)) in batch.iter().zip(results) {
                let found = forbidden
                    .iter()
                    .any(|file| text.contains(&format!("needle of {file}")));
                let is_temporary = text.contains("needle of tmp/");
                assert!(
                    !found && !is_temporary,
                    "{has_all_folders} {tool} {arguments}: {text}"
                );
            }
        }
        for file in forbidden {
            assert!(
                disk.content(file).unwrap().contains("needle of"),
                "{has_all_folders} {file}"
            );
        }
    }
}
