//! Gives libFuzzer one target, which `SYNCLINE_FUZZ_TARGET` names; see docs/internals/testing.md.

#![no_main]

use fuzz::Target;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("SYNCLINE_FUZZ_TARGET").unwrap_or_default();
    fuzz::target(&name).unwrap_or_else(|| panic!("SYNCLINE_FUZZ_TARGET names no target: `{name}`"))
});

fuzz_target!(|bytes: &[u8]| (TARGET.run)(bytes));
