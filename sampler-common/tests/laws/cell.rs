//! A memory cell that lets something happen before each access: what can interrupt a BPF program
//! does so between any two of its steps.

use sampler_common::cell::Cell;
use std::cell::RefCell;
use std::rc::Rc;

thread_local! {
    static HOOK: RefCell<Option<Rc<dyn Fn()>>> = const { RefCell::new(None) };
}

/// The hook is called until this is dropped.
pub struct Hooked;

impl Drop for Hooked {
    fn drop(&mut self) {
        HOOK.with_borrow_mut(|hook| *hook = None);
    }
}

/// From now on each step on this thread calls `hook` first. It may access cells itself, and sees to
/// it that it does not call itself without end.
pub fn hook(hook: impl Fn() + 'static) -> Hooked {
    HOOK.with_borrow_mut(|current| *current = Some(Rc::new(hook)));
    Hooked
}

/// A step of a program: an access to a cell, a map or a counter.
pub fn step() {
    let hook = HOOK.with_borrow(Clone::clone);
    if let Some(hook) = hook {
        hook();
    }
}

/// A cell whose accesses are steps.
#[derive(Debug, Default)]
pub struct Probe(std::cell::Cell<u64>);

impl Probe {
    /// The value, without a step: for who looks on.
    pub fn peek(&self) -> u64 {
        self.0.get()
    }
}

impl Cell for Probe {
    fn get(&self) -> u64 {
        step();
        self.0.get()
    }

    fn set(&self, value: u64) {
        step();
        self.0.set(value);
    }

    fn add(&self, value: u64) -> u64 {
        step();
        let before = self.0.get();
        self.0.set(before.wrapping_add(value));
        before
    }

    fn take(&self) -> u64 {
        step();
        self.0.take()
    }
}
