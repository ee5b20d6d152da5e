//! Tests of targets against scripted services and programs.

mod conformance;
mod hostile;
mod http;
mod programs;
mod setup;
