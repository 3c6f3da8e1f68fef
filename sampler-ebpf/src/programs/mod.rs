//! One file a program.

mod on_exec;
mod on_exit;
mod on_fork;
mod on_overflow;
mod on_rename;
mod on_snapshot;
mod on_switch;
