//! Output of a child process, read as it comes, so that a full pipe never stops the child.

use std::{
    io::{BufRead as _, BufReader, Read},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// What a child wrote so far, and whether it has closed its end.
#[derive(Clone, Default)]
pub(crate) struct Stream(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lines: Vec<String>,
    closed: bool,
}

impl Stream {
    /// Reads `from` to its end, on a thread of its own.
    pub(crate) fn read(from: impl Read + Send + 'static) -> Self {
        let stream = Self::default();
        let writer = stream.clone();
        thread::spawn(move || {
            let mut from = BufReader::new(from);
            let mut line = Vec::new();
            while matches!(from.read_until(b'\n', &mut line), Ok(1..)) {
                let text = String::from_utf8_lossy(&line).into_owned();
                writer.update(|state| state.lines.push(text));
                line.clear();
            }
            writer.update(|state| state.closed = true);
        });
        stream
    }

    /// Waits for a line from number `from` on that `wanted` takes; `None` at the end of the output or
    /// of the time.
    pub(crate) fn wait_for<T>(
        &self,
        from: usize,
        limit: Duration,
        wanted: impl Fn(&str) -> Option<T>,
    ) -> Option<(usize, T)> {
        let deadline = Instant::now() + limit;
        let mut next = from;
        let mut state = self.lock();
        loop {
            while let Some(line) = state.lines.get(next) {
                next += 1;
                if let Some(found) = wanted(line) {
                    return Some((next, found));
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if state.closed || left.is_zero() {
                return None;
            }
            let waited = self.0.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// All of it; waits for the end of the output, but no longer than `limit`.
    pub(crate) fn text(&self, limit: Duration) -> String {
        self.wait_for(0, limit, |_| None::<()>);
        self.lock().lines.concat()
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.0.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
