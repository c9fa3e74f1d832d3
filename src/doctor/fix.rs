//! The fix that applies in each kind of environment: lines to paste.

use shmguard_core::size::Flag;

use super::environment::Kind;
use crate::estimate::quantity;

/// How to get a guarded directory `path` of `bytes`.
pub fn larger_shm(kind: Kind, path: &str, bytes: u64) -> Vec<String> {
    let flag = Flag(bytes);
    match kind {
        Kind::Docker => {
            vec![format!("docker run --shm-size={flag} ..."), format!("compose, under the service:  shm_size: {flag}")]
        }
        Kind::Podman => {
            vec![format!("podman run --shm-size={flag} ..."), format!("a Quadlet .container file:  ShmSize={flag}")]
        }
        Kind::Kubernetes => volume(path, bytes),
        Kind::Apptainer => vec![
            format!("apptainer exec --bind {path} ...   (the host's own {path}; without --contain it is that anyway)"),
            format!("on the host, as root:  mount -o remount,size={flag} {path}"),
        ],
        Kind::Slurm => vec![format!("the node's administrator:  mount -o remount,size={flag} {path}")],
        Kind::Wsl => vec![
            format!("sudo mount -o remount,size={flag} {path}"),
            format!("to keep it, in /etc/fstab:  none {path} tmpfs rw,nosuid,nodev,mode=1777,size={flag} 0 0"),
            "the machine's memory is set in %UserProfile%\\.wslconfig:  [wsl2] memory=16GB".into(),
        ],
        Kind::Bare => vec![
            format!("sudo mount -o remount,size={flag} {path}"),
            format!("to keep it, in /etc/fstab:  tmpfs {path} tmpfs rw,nosuid,nodev,mode=1777,size={flag} 0 0"),
        ],
        Kind::Container => {
            vec![format!("as root of the host, in the container's settings: a tmpfs of {flag} at {path}")]
        }
        // Nothing can be set there: what follows are the variables.
        Kind::Fargate | Kind::Sagemaker | Kind::Lambda => Vec::new(),
    }
}

/// A volume in memory at `path`: the only way in a pod, which has no --shm-size.
fn volume(path: &str, bytes: u64) -> Vec<String> {
    format!(
        "spec:\n  volumes:\n  - name: shm\n    emptyDir: {{medium: Memory, sizeLimit: {size}}}\n  containers:\n  - name: ...\n    \
         volumeMounts:\n    - {{name: shm, mountPath: {path}}}\n(counts against resources.limits.memory of the container)",
        size = quantity(bytes)
    )
    .lines()
    .map(str::to_owned)
    .collect()
}

/// The variable for where nothing else is allowed. The target that was found to be usable is one that the library uses by itself.
pub fn variable(library: &str) -> String {
    format!("LD_PRELOAD={library}")
}

/// How to get a `path` that is a tmpfs at all.
pub fn mount_shm(kind: Kind, path: &str, bytes: u64) -> Vec<String> {
    match kind {
        Kind::Kubernetes => volume(path, bytes),
        Kind::Docker => vec![format!("docker run --tmpfs {path}:rw,nosuid,nodev,mode=1777,size={} ...", Flag(bytes))],
        Kind::Podman => vec![format!("podman run --tmpfs {path}:rw,nosuid,nodev,mode=1777,size={} ...", Flag(bytes))],
        Kind::Apptainer => vec![format!("apptainer exec --bind {path} ...")],
        Kind::Lambda => vec![format!(
            "nothing can be mounted in a function: use threads, or num_workers=0, instead of what needs {path}"
        )],
        Kind::Fargate => vec![format!(
            "the task definition, linuxParameters.tmpfs (EC2 launch type):  containerPath {path}, size {} (MiB)",
            bytes >> 20
        )],
        _ => vec![format!("sudo mkdir -p {path} && sudo mount -t tmpfs -o rw,nosuid,nodev,mode=1777 tmpfs {path}")],
    }
}

/// How to raise the number of descriptors to `wanted`, given the hard limit.
pub fn descriptors(kind: Kind, wanted: u64, hard: Option<u64>) -> Vec<String> {
    let mut lines = Vec::new();
    if hard.is_some_and(|hard| hard < wanted) {
        match kind {
            Kind::Docker | Kind::Podman => {
                let tool = if kind == Kind::Docker { "docker" } else { "podman" };
                lines.push(format!("{tool} run --ulimit nofile={wanted}:{wanted} ..."));
                lines.push(format!("compose, under the service:  ulimits: {{nofile: {wanted}}}"));
            }
            Kind::Kubernetes => lines.push("a pod cannot set it: LimitNOFILE of the node's container runtime".into()),
            Kind::Slurm => lines.push("sbatch --propagate=NOFILE, with a higher limit where you submit".into()),
            _ => {
                lines.push(format!("/etc/security/limits.conf:  * - nofile {wanted}   (and log in again)"));
                lines.push(format!("of a service:  LimitNOFILE={wanted}"));
            }
        }
    } else {
        lines.push(format!("ulimit -n {wanted}   (in the shell that starts the program)"));
    }
    lines.push("or torch.multiprocessing.set_sharing_strategy('file_system'), which keeps none open".into());
    lines
}

/// How to set a kernel parameter.
pub fn sysctl(kind: Kind, setting: &str) -> Vec<String> {
    let place = if kind.is_container() { "on the host, as root:  " } else { "sudo " };
    let name = setting.split('=').next().unwrap_or(setting);
    vec![
        format!("{place}sysctl -w {setting}"),
        format!("to keep it:  echo {setting} > /etc/sysctl.d/90-{}.conf", name.replace('.', "-")),
    ]
}

/// How to give a container or job more memory, or how much less shared memory to ask for.
pub fn memory(kind: Kind, wanted: u64, shm: u64) -> Vec<String> {
    match kind {
        Kind::Kubernetes => vec![
            format!("resources: {{limits: {{memory: {}}}}}", quantity(wanted)),
            format!("or a smaller volume:  emptyDir: {{medium: Memory, sizeLimit: {}}}", quantity(shm)),
        ],
        Kind::Docker => vec![
            format!("docker run -m {} ...", Flag(wanted)),
            format!("or less shared memory:  docker run --shm-size={} ...", Flag(shm)),
        ],
        Kind::Podman => vec![
            format!("podman run -m {} ...", Flag(wanted)),
            format!("or less shared memory:  podman run --shm-size={} ...", Flag(shm)),
        ],
        Kind::Slurm | Kind::Apptainer => vec![format!("sbatch --mem={}M ...", wanted.div_ceil(1 << 20))],
        Kind::Fargate => vec![format!("the task definition:  \"memory\": \"{}\"", wanted.div_ceil(1 << 20))],
        _ => vec![format!("a memory limit of {} (MemoryMax= of the service or slice)", Flag(wanted))],
    }
}

/// How to get more inodes.
pub fn inodes(kind: Kind, path: &str, bytes: u64) -> Vec<String> {
    match kind {
        Kind::Docker | Kind::Podman => {
            let tool = if kind == Kind::Docker { "docker" } else { "podman" };
            let size = Flag(bytes);
            vec![format!("{tool} run --tmpfs {path}:rw,nosuid,nodev,mode=1777,size={size},nr_inodes=1m ...")]
        }
        Kind::Kubernetes => volume(path, bytes),
        _ => vec![format!("sudo mount -o remount,nr_inodes=1m {path}")],
    }
}
