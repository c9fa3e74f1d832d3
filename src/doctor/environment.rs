//! Which kind of environment this is, by evidence that is named.

use serde::Serialize;

use super::mounts::Mount;
use super::root::{Environment, Root};

/// Kinds of environments that call for different fixes, the innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A pod.
    Kubernetes,
    /// A task of AWS Fargate, or of ECS.
    Fargate,
    /// A training job or notebook of SageMaker.
    Sagemaker,
    /// A function of AWS Lambda: no /dev/shm.
    Lambda,
    /// Apptainer or Singularity.
    Apptainer,
    /// Podman.
    Podman,
    /// Docker.
    Docker,
    /// LXC, systemd-nspawn and what else says that it is a container.
    Container,
    /// A job of Slurm, on the node itself.
    Slurm,
    /// Windows Subsystem for Linux.
    Wsl,
    /// A machine of its own.
    Bare,
}

impl Kind {
    /// What it is called.
    pub fn words(self) -> &'static str {
        match self {
            Kind::Kubernetes => "Kubernetes",
            Kind::Fargate => "AWS ECS/Fargate",
            Kind::Sagemaker => "SageMaker",
            Kind::Lambda => "AWS Lambda",
            Kind::Apptainer => "Apptainer",
            Kind::Podman => "Podman",
            Kind::Docker => "Docker",
            Kind::Container => "a container",
            Kind::Slurm => "Slurm",
            Kind::Wsl => "WSL",
            Kind::Bare => "bare machine",
        }
    }

    /// Is this a container, whose limits somebody has set?
    pub fn is_container(self) -> bool {
        !matches!(self, Kind::Slurm | Kind::Wsl | Kind::Bare)
    }
}

/// What was recognised, and by what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recognised {
    /// The kind.
    pub kind: Kind,
    /// The evidence, for people.
    pub evidence: Vec<String>,
}

/// Everything that there is evidence of, the innermost first; never empty.
pub fn recognise(root: &Root, environment: &Environment, mounts: &[Mount]) -> Vec<Recognised> {
    let clues = Clues {
        root,
        environment,
        mounts,
        cgroup: root.text("proc/self/cgroup").unwrap_or_default(),
        release: root.text("proc/sys/kernel/osrelease").or_else(|| root.text("proc/version")).unwrap_or_default(),
    };
    let mut found: Vec<Recognised> = [
        (Kind::Kubernetes, clues.kubernetes()),
        (Kind::Fargate, clues.variables(&["ECS_CONTAINER_METADATA_URI_V4", "ECS_CONTAINER_METADATA_URI"])),
        (
            Kind::Sagemaker,
            clues.variables(&["SM_TRAINING_ENV", "TRAINING_JOB_ARN", "SAGEMAKER_JOB_NAME", "SAGEMAKER_APP_TYPE"]),
        ),
        (Kind::Lambda, clues.variables(&["AWS_LAMBDA_FUNCTION_NAME"])),
        (Kind::Apptainer, clues.apptainer()),
        (Kind::Podman, clues.podman()),
        (Kind::Docker, clues.docker()),
        (Kind::Container, clues.container()),
        (Kind::Slurm, clues.slurm()),
        (Kind::Wsl, clues.wsl()),
    ]
    .into_iter()
    .filter(|(_, evidence)| !evidence.is_empty())
    .map(|(kind, evidence)| Recognised { kind, evidence })
    .collect();
    // Whoever runs the container is said by the others; that it is one adds nothing.
    if found.iter().any(|other| other.kind != Kind::Container && other.kind.is_container()) {
        found.retain(|other| other.kind != Kind::Container);
    }
    if found.is_empty() {
        found.push(Recognised { kind: Kind::Bare, evidence: vec!["no sign of anything else".into()] });
    }
    found
}

struct Clues<'a> {
    root: &'a Root,
    environment: &'a Environment,
    mounts: &'a [Mount],
    cgroup: String,
    release: String,
}

impl Clues<'_> {
    /// Those of the variables that are set.
    fn variables(&self, names: &[&str]) -> Vec<String> {
        let set = names.iter().filter(|name| self.environment.get(name).is_some());
        set.map(|name| format!("${name} is set")).collect()
    }

    /// Those of the files that are there.
    fn files(&self, paths: &[&str]) -> Vec<String> {
        paths.iter().filter(|path| self.root.has(path)).map(|path| format!("{path} is there")).collect()
    }

    /// A mount whose root or point contains the words.
    fn mount(&self, words: &str) -> Option<String> {
        let mount = self.mounts.iter().find(|mount| mount.root.contains(words) || mount.point.contains(words))?;
        Some(format!("{} is mounted from a path with {words}", mount.point))
    }

    fn in_cgroup(&self, words: &[&str]) -> Option<String> {
        let found = words.iter().find(|words| self.cgroup.contains(**words))?;
        Some(format!("/proc/self/cgroup has {found}"))
    }

    /// The variable `container`, which runtimes and systemd set (systemd's container interface).
    fn container_is(&self, names: &[&str]) -> Option<String> {
        let value = self.environment.get("container")?.to_str()?;
        names.contains(&value).then(|| format!("$container is {value}"))
    }

    fn kubernetes(&self) -> Vec<String> {
        let mut evidence = self.variables(&["KUBERNETES_SERVICE_HOST"]);
        evidence.extend(self.files(&["/run/secrets/kubernetes.io", "/var/run/secrets/kubernetes.io"]));
        evidence.extend(self.mount("/kubelet/pods/"));
        evidence.extend(self.in_cgroup(&["kubepods"]));
        evidence
    }

    fn apptainer(&self) -> Vec<String> {
        let mut evidence = self.files(&["/.singularity.d"]);
        evidence.extend(self.variables(&["APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"]));
        evidence
    }

    fn podman(&self) -> Vec<String> {
        let mut evidence = self.files(&["/run/.containerenv"]);
        evidence.extend(self.container_is(&["podman"]));
        evidence.extend(self.in_cgroup(&["libpod-"]));
        evidence
    }

    fn docker(&self) -> Vec<String> {
        let mut evidence = self.files(&["/.dockerenv"]);
        // A machine whose disk was made from an image has that file too; a container has its names mounted.
        let names = |mount: &Mount| matches!(mount.point.as_str(), "/etc/hostname" | "/etc/hosts" | "/etc/resolv.conf");
        if !self.mounts.is_empty() && !self.mounts.iter().any(names) {
            evidence.clear();
        }
        // Docker mounts these three from its own directory, wherever that is.
        let own = self.mounts.iter().find(|mount| {
            mount.point == "/etc/hostname" && mount.root.contains("/containers/") && mount.root.ends_with("/hostname")
        });
        if let Some(mount) = own.filter(|mount| !mount.root.contains("overlay-containers")) {
            evidence.push(format!("{} is mounted from .../containers/ID/hostname", mount.point));
        }
        evidence.extend(self.in_cgroup(&["/docker/", "/docker-"]));
        evidence
    }

    fn container(&self) -> Vec<String> {
        let mut evidence = self.files(&["/run/systemd/container"]);
        if let Some(value) = self.environment.get("container") {
            evidence.push(format!("$container is {}", value.to_string_lossy()));
        }
        evidence
    }

    fn slurm(&self) -> Vec<String> {
        let mut evidence = self.variables(&["SLURM_JOB_ID"]);
        evidence.extend(self.in_cgroup(&["slurmstepd.scope/job_", "/slurm/uid_"]));
        evidence
    }

    fn wsl(&self) -> Vec<String> {
        let mut evidence = Vec::new();
        if self.release.to_ascii_lowercase().contains("microsoft") {
            evidence.push(format!("the kernel is {}", self.release.trim().chars().take(48).collect::<String>()));
        }
        evidence.extend(self.variables(&["WSL_DISTRO_NAME"]));
        evidence
    }
}
