//! The `deployment` block: container, registry, target and protocols of a deployed agent. `protocol` and `port` are the
//! defaults of `serve:`; `holodeck deploy` reads the others, except for `target`.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::value::{SecretMap, read_secrets, write_secrets};

/// How an agent is deployed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeploymentConfig {
    /// The kind of environment that the agent runs in.
    #[serde(default)]
    pub runtime: Runtime,
    /// Where the image is kept.
    pub registry: RegistryConfig,
    /// Where it runs.
    pub target: DeploymentTarget,
    /// The protocols that the agent serves.
    #[serde(default)]
    pub protocol: ServeProtocol,
    /// Port it listens on.
    #[serde(default = "port_8080")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: u32,
    /// Path of the health check.
    #[serde(default = "health")]
    pub health_check_path: String,
    /// Environment variables of the agent.
    #[serde(default, deserialize_with = "read_secrets", serialize_with = "write_secrets")]
    #[schemars(with = "Option<IndexMap<String, String>>")]
    pub environment: SecretMap,
    /// Platform of the image.
    #[serde(default = "linux_amd64")]
    pub platform: String,
}

/// The kind of environment that a deployed agent runs in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Runtime {
    /// A container.
    #[default]
    Container,
}

/// Where an image is kept.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegistryConfig {
    /// URL of the registry.
    pub url: String,
    /// Name of the image.
    #[schemars(regex(pattern = r"^[a-z0-9]([a-z0-9._/-]*[a-z0-9])?$"), extend("x-form" = "lower-case letters, digits, `.`, `_`, `/` and `-`, with a letter or digit at both ends"))]
    pub repository: String,
    /// How the image is tagged.
    #[serde(default)]
    pub tag_strategy: TagStrategy,
    /// The tag, for `tag_strategy: custom`.
    pub custom_tag: Option<String>,
    /// Without effect.
    #[schemars(extend("x-no-effect" = "the registry client's credentials are used"))]
    pub credentials_env_prefix: Option<String>,
}

/// How an image is tagged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TagStrategy {
    /// With the commit.
    #[default]
    GitSha,
    /// With the tag of the commit.
    GitTag,
    /// With `latest`.
    Latest,
    /// With `custom_tag`.
    Custom,
}

/// Protocols that an agent serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ServeProtocol {
    /// REST.
    #[default]
    Rest,
    /// AG-UI.
    AgUi,
    /// Both.
    Both,
}

/// Where an agent runs: a provider and the block of the same name.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeploymentTarget {
    /// Which cloud.
    pub provider: CloudProvider,
    /// AWS App Runner.
    pub aws: Option<AwsTarget>,
    /// Google Cloud Run.
    pub gcp: Option<GcpTarget>,
    /// Azure Container Apps.
    pub azure: Option<AzureTarget>,
}

/// Cloud providers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CloudProvider {
    /// Amazon.
    Aws,
    /// Google.
    Gcp,
    /// Microsoft.
    Azure,
}

/// AWS App Runner.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AwsTarget {
    /// Region.
    pub region: String,
    /// Processors.
    #[serde(default = "one")]
    pub cpu: u32,
    /// Memory in MB.
    #[serde(default = "two_gib")]
    pub memory: u32,
    /// Role that may read the registry.
    #[schemars(regex(pattern = r"^arn:aws:iam::[0-9]{12}:role/.+$"), extend("x-form" = "`arn:aws:iam::<12 digits>:role/<name>`"))]
    pub ecr_role_arn: Option<String>,
    /// Path of the health check.
    #[serde(default = "health")]
    pub health_check_path: String,
    /// Minimum number of instances.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 25))]
    pub auto_scaling_min: u32,
    /// Maximum number of instances.
    #[serde(default = "five")]
    #[schemars(range(min = 1, max = 25))]
    pub auto_scaling_max: u32,
}

/// Google Cloud Run.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GcpTarget {
    /// Project.
    #[schemars(regex(pattern = r"^[a-z][a-z0-9-]{4,28}[a-z0-9]$"), extend("x-form" = "6 to 30 lower-case letters, digits and `-`, with a letter first"))]
    pub project_id: String,
    /// Region.
    #[serde(default = "us_central1")]
    pub region: String,
    /// Memory.
    #[serde(default = "half_gib")]
    #[schemars(regex(pattern = r"^[0-9]+(Mi|Gi)$"), extend("x-form" = "a number with `Mi` or `Gi`"))]
    pub memory: String,
    /// Processors.
    #[serde(default = "one")]
    pub cpu: u32,
    /// Requests at the same time.
    #[serde(default = "eighty")]
    #[schemars(range(min = 1, max = 1000))]
    pub concurrency: u32,
    /// Seconds a request may take.
    #[serde(default = "three_hundred")]
    #[schemars(range(min = 1, max = 3600))]
    pub timeout: u32,
    /// Minimum number of instances.
    #[serde(default)]
    pub min_instances: u32,
    /// Maximum number of instances.
    #[serde(default = "hundred")]
    pub max_instances: u32,
}

/// Azure Container Apps.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AzureTarget {
    /// Subscription.
    #[schemars(regex(
        pattern = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
    ), extend("x-form" = "a UUID"))]
    pub subscription_id: String,
    /// Resource group.
    pub resource_group: String,
    /// Environment of the app.
    pub environment_name: Option<String>,
    /// Location.
    #[serde(default = "eastus")]
    pub location: String,
    /// Processors, in steps of 0.25.
    #[serde(default = "one_cpu")]
    #[schemars(range(min = 0.25, max = 2.0), extend("multipleOf" = 0.25))]
    pub cpu: f64,
    /// Memory.
    #[serde(default = "two_gi")]
    pub memory: String,
    /// Whether it can be reached from outside.
    #[serde(default)]
    pub ingress_external: bool,
    /// Minimum number of instances.
    #[serde(default)]
    pub min_replicas: u32,
    /// Maximum number of instances.
    #[serde(default = "ten")]
    pub max_replicas: u32,
}

fn one() -> u32 {
    1
}

fn five() -> u32 {
    5
}

fn ten() -> u32 {
    10
}

fn eighty() -> u32 {
    80
}

fn hundred() -> u32 {
    100
}

fn three_hundred() -> u32 {
    300
}

fn two_gib() -> u32 {
    2048
}

fn port_8080() -> u32 {
    8080
}

fn one_cpu() -> f64 {
    1.0
}

fn health() -> String {
    "/health".to_owned()
}

fn linux_amd64() -> String {
    "linux/amd64".to_owned()
}

fn us_central1() -> String {
    "us-central1".to_owned()
}

fn half_gib() -> String {
    "512Mi".to_owned()
}

fn eastus() -> String {
    "eastus".to_owned()
}

fn two_gi() -> String {
    "2Gi".to_owned()
}
