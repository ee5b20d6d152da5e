//! Tests with real and with malicious files: conversion, isolation, recognition and downloads.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod cached;
mod fetch;
mod files;
mod hostile;
mod pictures;
mod web;
mod word;
