//! What workload and test tell each other: one JSON object a line on the workload's stdout, one word
//! a line on its stdin.
//!
//! The workload prints [`Message::Ready`] and idles. `go` starts the measured window. `mark` asks for
//! a [`Message::Mark`] at any time. At the end of the window it prints [`Message::Truth`] and exits.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Starts the measured window.
pub const GO: &str = "go";
/// Asks for the truth so far.
pub const MARK: &str = "mark";

/// The thread that starts the short ones.
pub const SPAWNER: &str = "spawner";
/// The name of each short thread.
pub const SHORT: &str = "short";
/// What the names of long-lived threads of a storm begin with.
pub const LONG: &str = "long-";
/// The file name, and so the kernel's name, of the second program of an exec chain.
pub const EXECED: &str = "chain-two";
/// The functions of the known call chain, outermost first.
pub const CHAIN: [&str; 3] = ["known_chain_a", "known_chain_b", "known_chain_c"];

/// One line of a workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Message {
    /// All threads that live as long as the window are there, idle.
    Ready(Ready),
    /// The answer to [`MARK`].
    Mark(Truth),
    /// The window is over.
    Truth(Truth),
}

/// Who is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// The process.
    pub tgid: u32,
    /// Its threads that live as long as the window, by name; not its main thread.
    pub tids: BTreeMap<String, u32>,
}

/// What really happened since the window began (before that: since the workload was ready), by the
/// kernel's own clocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truth {
    /// CPU time of the process, its exited threads included.
    pub process_ns: u64,
    /// Time gone by.
    pub wall_ns: u64,
    /// The threads that live as long as the window, by name.
    pub threads: BTreeMap<String, ThreadTruth>,
    /// Short threads started. All of them are joined by the end of the window, but for a storm.
    #[serde(default)]
    pub short_threads: u64,
    /// What the short threads' own clocks said at the end of their work. Their exits are not in it.
    #[serde(default)]
    pub short_ns: u64,
    /// Fresh pages touched.
    #[serde(default)]
    pub pages: u64,
    /// Times that the one thread of the workload was moved to another CPU.
    #[serde(default)]
    pub migrations: u64,
    /// Each process of a tree, the first one included.
    #[serde(default)]
    pub processes: Vec<ProcessTruth>,
}

/// One thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTruth {
    /// Its id.
    pub tid: u32,
    /// Its own clock.
    pub cpu_ns: u64,
    /// Page faults, minor and major; 0 while the thread hasn't told yet.
    #[serde(default)]
    pub faults: u64,
    /// Context switches, voluntary or not; 0 while the thread hasn't told yet.
    #[serde(default)]
    pub switches: u64,
}

/// One process of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessTruth {
    /// Its id.
    pub tgid: u32,
    /// The process that forked it.
    pub parent: u32,
    /// Its own clock at the end of its work.
    pub cpu_ns: u64,
}
