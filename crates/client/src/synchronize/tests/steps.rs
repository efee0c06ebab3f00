//! Synchronizations whose host is a test: it cuts what arrives, and ends anywhere.

mod cut;
mod ended;
mod host;
mod misuse;
mod waiting;

use super::{assert_equal, assert_nothing_doubled, center, joined, noting, request, rows, sync};
use host::{Conduct, Driven, ManualClock, drive};
