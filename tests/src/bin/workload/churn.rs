//! Threads that are started and joined, thousands a second.

use std::{
    io,
    mem::MaybeUninit,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::Result;
use libc::c_void;
use sampler_tests::{
    clock::own_thread_ns,
    protocol::{SHORT, SPAWNER, Truth},
};

use crate::{
    control::Session,
    gate::Gate,
    team::Team,
    work::{burn, burn_own_life},
};

/// What a short thread computes in its life.
const SHORT_NS: u64 = 50_000;
/// How often two short threads are started: 4,000 threads a second. At the highest rate of a quick
/// machine, what each does after the process clock has let go of it would be more than the 2 % that
/// the tests allow.
const PAIR_EVERY: Duration = Duration::from_micros(500);
/// The least that threads are allowed, so that starting one costs little.
#[doc(alias = "PTHREAD_STACK_MIN")]
const SHORT_STACK_BYTES: usize = 16 * 1024;

/// Busy threads, `busy-0` and so on, and a `spawner` of threads named `short`.
#[derive(clap::Args)]
pub struct Churn {
    /// How long.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// How many busy threads.
    #[arg(long, default_value_t = 2)]
    busy: u32,
}

/// A `spawner` and nothing else; its threads bear its name.
#[derive(clap::Args)]
pub struct SpawnOnly {
    /// How long.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
}

/// What the short threads add up to.
#[derive(Default)]
struct Sum {
    threads: AtomicU64,
    ns: AtomicU64,
}

impl Sum {
    fn add_to(&self, truth: &mut Truth) {
        truth.short_threads = self.threads.load(Relaxed);
        truth.short_ns = self.ns.load(Relaxed);
    }
}

/// Runs it.
pub fn churn(session: Session, args: &Churn) -> Result<()> {
    let sum = Arc::new(Sum::default());
    let mut team = Team::default();
    for number in 0..args.busy {
        team.add(&format!("busy-{number}"), |gate| burn(|| !gate.working()))?;
    }
    let spawners = Arc::clone(&sum);
    team.add(SPAWNER, move |gate| spawn_short(gate, &spawners))?;
    team.run(session, args.seconds, |truth| sum.add_to(truth))
}

/// Runs it.
pub fn spawn_only(session: Session, args: &SpawnOnly) -> Result<()> {
    let sum = Arc::new(Sum::default());
    let mut team = Team::default();
    let spawners = Arc::clone(&sum);
    team.add(SPAWNER, move |gate| spawn_bare(gate, &spawners))?;
    team.run(session, args.seconds, |truth| sum.add_to(truth))
}

fn spawn_short(gate: &Gate, sum: &Arc<Sum>) {
    let begun = Instant::now();
    for pairs in 0_u32.. {
        if !gate.working() {
            break;
        }
        // Whoever is late catches up.
        thread::sleep((begun + PAIR_EVERY * pairs).saturating_duration_since(Instant::now()));
        // Two at a time, so that the rate doesn't hang on how soon the spawner is woken.
        let pair = [start_short(sum), start_short(sum)];
        for handle in pair.into_iter().flatten() {
            sum.threads.fetch_add(1, Relaxed);
            // A short thread has nothing in it that panics.
            let _ = handle.join();
        }
    }
}

fn start_short(sum: &Arc<Sum>) -> io::Result<JoinHandle<()>> {
    let sum = Arc::clone(sum);
    let builder = thread::Builder::new().name(SHORT.to_owned()).stack_size(SHORT_STACK_BYTES);
    builder.spawn(move || {
        burn_own_life(SHORT_NS);
        sum.ns.fetch_add(own_thread_ns().unwrap_or(0), Relaxed);
    })
}

fn spawn_bare(gate: &Gate, sum: &Sum) {
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: `attributes` is valid for writes; initialising it is what the call does.
    unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) };
    // SAFETY: the attributes were initialised just now.
    let mut attributes: libc::pthread_attr_t = unsafe { attributes.assume_init() };
    // SAFETY: the attributes are initialised, and the size is one that is allowed.
    unsafe { libc::pthread_attr_setstacksize(&raw mut attributes, SHORT_STACK_BYTES) };
    while gate.working() {
        let mut thread = MaybeUninit::uninit();
        // SAFETY: `thread` is valid for writes, the attributes are initialised, and `return_at_once`
        // takes no argument.
        let failed = unsafe {
            let attributes = &raw const attributes;
            libc::pthread_create(thread.as_mut_ptr(), attributes, return_at_once, ptr::null_mut())
        };
        if failed == 0 {
            sum.threads.fetch_add(1, Relaxed);
            // SAFETY: the thread was created, and is joined this once; its value isn't asked for.
            unsafe { libc::pthread_join(thread.assume_init(), ptr::null_mut()) };
        }
    }
    // SAFETY: the attributes are initialised and not used again.
    unsafe { libc::pthread_attr_destroy(&raw mut attributes) };
}

extern "C" fn return_at_once(_: *mut c_void) -> *mut c_void {
    ptr::null_mut()
}
