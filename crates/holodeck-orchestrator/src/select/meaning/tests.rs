//! Tests which texts are compared, and which selection follows from the similarities.

use std::sync::Mutex;

use holodeck_model::SelectionAlgorithm;
use pretty_assertions::assert_eq;
use tokio_util::sync::CancellationToken;

use super::*;

/// The similarities of an agent to each task, or an error, and what was compared.
struct Scripted {
    cosines: Result<Vec<i64>, BackendError>,
    is_local: bool,
    compared: Mutex<Vec<(Vec<String>, String)>>,
}

#[async_trait]
impl TextSimilarity for Scripted {
    fn name(&self) -> &'static str {
        "embedding-model"
    }

    fn is_local(&self) -> bool {
        self.is_local
    }

    async fn compare(&self, texts: &[String], query: &str) -> Result<Compared, BackendError> {
        self.compared
            .lock()
            .unwrap()
            .push((texts.to_vec(), query.to_owned()));
        Ok(Compared {
            cosines: self.cosines.clone()?,
            ..Compared::default()
        })
    }
}

/// The similarities of the agents `a` and `b`; those to texts that are for no agent are around 0.1.
fn similar(a: i64, b: i64) -> Vec<i64> {
    let unrelated = (45..).map(|number| 2_000 * number).take(UNRELATED.len());
    [a, b].into_iter().chain(unrelated).collect()
}

fn scripted(cosines: Result<Vec<i64>, BackendError>) -> Arc<Scripted> {
    Arc::new(Scripted {
        cosines,
        is_local: false,
        compared: Mutex::default(),
    })
}

fn selector(similarity: &Arc<Scripted>, config: &AgentsConfig) -> EmbeddingSelector {
    let doc = |name: &str, commands: &[&str], triggers: &[&str]| AgentDoc {
        name: name.to_owned(),
        description: format!("Does {name}"),
        path: format!("{name}.md").into(),
        commands: commands.iter().map(|&text| text.to_owned()).collect(),
        triggers: triggers.iter().map(|&text| text.to_owned()).collect(),
        ..AgentDoc::default()
    };
    let docs = vec![
        doc("b", &["review"], &[]),
        doc("a", &[], &["deploy", "ship"]),
        doc("retired", &[], &[]),
    ];
    let registry = AgentRegistry::new(docs).0;
    let words = AgentSelector::new(&registry, config, 0.5);
    let similarity = Arc::clone(similarity) as Arc<dyn TextSimilarity>;
    EmbeddingSelector::new(words, &registry, (config, 0.5), similarity)
}

fn config() -> AgentsConfig {
    AgentsConfig {
        algorithm: SelectionAlgorithm::Embedding,
        exclude: vec!["retired".to_owned()],
        ..AgentsConfig::default()
    }
}

fn task(text: &str, command: &str) -> SelectionTask {
    SelectionTask {
        text: text.to_owned(),
        command: command.to_owned(),
        ..SelectionTask::default()
    }
}

async fn select(
    similarity: &Arc<Scripted>,
    config: &AgentsConfig,
    task: &SelectionTask,
) -> Result<Selected, SelectError> {
    let cancel = CancellationToken::new();
    let asking = Asking {
        unit: None,
        trial: 0,
        cancel: &cancel,
    };
    selector(similarity, config).select(task, &asking).await
}

#[tokio::test]
async fn the_closest_agent_is_selected_as_sure_as_it_is_ahead_of_everything_else() {
    let similarity = scripted(Ok(similar(100_000, 700_000)));
    let selected = select(&similarity, &config(), &task("bring it out", "run"))
        .await
        .unwrap();
    assert_eq!(selected.selection.agent.as_deref(), Some("b"));
    assert!(selected.selection.confidence > 0.7, "{:?}", selected.selection);
    assert!(selected.call.is_none() && selected.selection.asked.is_none());
    let unsure = scripted(Ok(similar(110_000, 112_000)));
    let selected = select(&unsure, &config(), &task("hello", "run")).await.unwrap();
    assert!(selected.selection.confidence < 0.5, "{:?}", selected.selection);
    // Of equal ones the first name, without confidence.
    let tied = scripted(Ok(vec![200_000; 2 + UNRELATED.len()]));
    let selected = select(&tied, &config(), &task("hello", "run")).await.unwrap();
    assert_eq!(selected.selection.agent.as_deref(), Some("a"));
    assert!(selected.selection.confidence < 0.1);
    let routes = AgentsConfig {
        default_agent: Some("a".to_owned()),
        default_agent_routes: true,
        ..config()
    };
    let selected = select(&unsure, &routes, &task("hello", "run")).await.unwrap();
    assert_eq!(selected.selection.selected_by, SelectedBy::Default);
}

#[tokio::test]
async fn names_descriptions_and_triggers_are_compared_with_the_task_and_its_command() {
    let similarity = scripted(Ok(similar(1, 2)));
    select(&similarity, &config(), &task(" bring it out ", "ship"))
        .await
        .unwrap();
    select(&similarity, &config(), &task("bring it out", "run"))
        .await
        .unwrap();
    let compared = similarity.compared.lock().unwrap();
    assert_eq!(
        compared[0].0[..3],
        ["a: Does a (deploy, ship)", "b: Does b", UNRELATED[0]]
    );
    assert_eq!(compared[0].0.len(), 2 + UNRELATED.len());
    assert_eq!(
        (compared[0].1.as_str(), compared[1].1.as_str()),
        ("bring it out ship", "bring it out")
    );
}

#[tokio::test]
async fn without_a_comparison_words_select_and_say_so() {
    for cosines in [
        Err(BackendError::init("no route")),
        Ok(vec![1, 2]),
        Ok(Vec::new()),
    ] {
        let similarity = scripted(cosines);
        let selected = select(&similarity, &config(), &task("deploy it", "run"))
            .await
            .unwrap();
        assert_eq!(selected.selection.agent.as_deref(), Some("a"));
        assert!(
            selected.selection.reason.contains("`search-v2` selected"),
            "{:?}",
            selected.selection
        );
        assert!(selected.selection.asked.unwrap().problem.is_some());
    }
    let missing = scripted(Err(BackendError::replay_miss("nothing")));
    let selected = select(&missing, &config(), &task("deploy it", "run")).await;
    assert!(matches!(selected, Err(SelectError::NoAnswer(_))), "{selected:?}");
}

#[tokio::test]
async fn a_declared_command_and_an_empty_task_are_compared_with_nothing() {
    let similarity = scripted(Ok(similar(700_000, 1)));
    let declared = task("bring it out", "review");
    assert_eq!(selector(&similarity, &config()).question(&declared), None);
    let selected = select(&similarity, &config(), &declared).await.unwrap();
    assert_eq!(selected.selection.agent.as_deref(), Some("b"));
    assert!(selected.selection.confidence >= 1.0);
    select(&similarity, &config(), &task("  ", "run")).await.unwrap();
    assert!(similarity.compared.lock().unwrap().is_empty());
    let asked = selector(&similarity, &config())
        .question(&task("x", "run"))
        .unwrap();
    assert_eq!((asked.model.as_str(), asked.agents), ("embedding-model", 2));
}

/// The table and the figures of the documentation, computed again from the similarities of a real model.
#[test]
fn the_confidence_is_the_share_of_right_selections_by_a_real_model() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/routing/minilm-tune.csv"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let mut rows = text.lines().filter(|line| !line.starts_with('#'));
    let header: Vec<&str> = rows.next().unwrap().split(',').skip(1).collect();
    let agents = header.len() - UNRELATED.len();
    let mut counts = [(0_u32, 0_u32); TABLE.len()];
    let (mut reached, mut wrong, mut abstained) = (0, 0, 0);
    for row in rows {
        let (expected, cosines) = row.split_once(',').unwrap();
        let cosines: Vec<i64> = cosines.split(',').map(|cosine| cosine.parse().unwrap()).collect();
        let mut order: Vec<usize> = (0..agents).collect();
        order.sort_by_key(|agent| std::cmp::Reverse(cosines[*agent]));
        let strength = strength(cosines[order[0]], cosines[order[1]], &cosines);
        let is_right = header[order[0]] == expected;
        let bin = TABLE.iter().rposition(|(from, _)| *from <= strength).unwrap();
        counts[bin].0 += u32::from(is_right);
        counts[bin].1 += 1;
        let is_routed = confidence(strength) >= 0.5;
        reached += u32::from(is_routed && is_right);
        wrong += u32::from(is_routed && !is_right);
        abstained += u32::from(!is_routed && expected.is_empty());
    }
    for ((right, all), (from, confidence)) in counts.into_iter().zip(TABLE) {
        let share = f64::from(right + 1) / f64::from(all + 2);
        assert!((share - confidence).abs() <= 0.005, "{from}: {right} of {all}");
    }
    assert_eq!((reached, wrong, abstained), (18, 2, 20));
}
