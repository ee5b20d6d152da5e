//! Files of specialists and skills as people have them: `run` and `validate` say what of them is not used.

use holodeck_testkit::Reply;
use pretty_assertions::assert_eq;

use crate::routing::{REVIEWER, project, server, with};

#[test]
fn run_says_what_is_left_out_of_the_file_of_a_specialist() {
    let server = server(|| Reply::text("No bugs."));
    let project = project(&server.url(), "", "");
    project.write(
        "agents/reviewer.md",
        REVIEWER.replace("tools: [read_file]", "tools: [read_file, Grep]\nmodel: sonnet"),
    );
    let validated = project.run(&["agents", "validate"]).exits(0);
    for args in [&[][..], &["--json"], &["--explain"], &["--dry-run"]] {
        let ran = project.run(&with(args)).exits(0);
        for message in [
            "`Grep` is not a tool of this agent and is dropped",
            "agents/reviewer.md:6",
            "`sonnet`",
        ] {
            assert!(
                validated.stdout.contains(message),
                "{message}: {}",
                validated.all()
            );
            assert!(ran.stderr.contains(message), "{message}: {args:?}: {}", ran.all());
        }
    }
    assert_eq!(project.run(&with(&["--quiet"])).exits(0).stderr, "");
    // A specialist that is not asked leaves nothing out.
    let disabled = project.run(&with(&["--disable-sdk"])).exits(3);
    assert!(!disabled.stderr.contains("dropped"), "{}", disabled.all());
    server.finish();
}

/// The skills of a collection, as they are found: unknown keys, texts that are not YAML, names of their own, further files.
#[test]
fn collections_of_skills_load_with_warnings() {
    let server = server(|| Reply::text("Noted."));
    let project = project(&server.url(), "  skills: {directory: skills}\n", "");
    for (path, text) in [
        (
            "skills/notes/SKILL.md",
            "---\nname: Release Notes\ndescription: Writes notes. Examples: one, two\nlicense: Apache-2.0\nversion: 1.0\n\
             allowed-tools: Read, Bash(git log:*)\nhooks: {}\n---\n# Notes\n\nSee references/style.md.\n",
        ),
        ("skills/notes/references/style.md", "---\nname: x\n---\nShort."),
        ("skills/notes/references/more/deep.md", "Deep."),
        ("skills/notes/assets/template.html", "<p>"),
        ("skills/notes/scripts/helper.py", "print(1)"),
        (
            "skills/bare/SKILL.md",
            "---\nuser-invocable: false\n---\nDoes a bare thing.\n",
        ),
        (
            "skills/documents/pdf/SKILL.md",
            "---\nname: pdf\ndescription: d\n---\nx\n",
        ),
        ("skills/README.md", "# Skills\n"),
    ] {
        project.write(path, text);
    }
    let checked = project.run(&["validate"]).exits(0);
    for warning in [
        "skills/notes/SKILL.md:3",
        "`description` needs quotes in YAML",
        "that of its folder is used",
        "its first paragraph is used",
        "skills/documents/pdf/SKILL.md` is too deep in the folder of skills and not used",
    ] {
        assert!(checked.all().contains(warning), "{warning}: {}", checked.all());
    }
    let json = project
        .run(&["run", "--json", "--command", "notes", "--disable-sdk", "1.0"])
        .exits(0)
        .json();
    assert_eq!(json["output"]["skill"], "notes", "{json:#}");
    assert_eq!(json["output"]["output"], "Noted.");
    server.finish();
}
