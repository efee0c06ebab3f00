//! Frames of rows written, cut out of a stream and read. Each figure is for [`ROWS`] rows.

#![allow(clippy::unwrap_used)]

use divan::counter::ItemsCount;
use divan::{AllocProfiler, Bencher, black_box};
use syncline_protocol::{FRAME_BYTES_MAX, FrameDecoder, Message, Operation, RowsFrame};

/// Counts allocations beside the time.
#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const ROWS: u32 = 100_000;
const ROWS_IN_FRAME: u32 = 2_500;
/// As `model/benches/row.rs` encodes them.
const ROW_BYTES: usize = 122;
/// What a transport yields at once.
const READ_BYTES: usize = 64 * 1024;

fn main() {
    divan::main();
}

fn frames() -> Vec<Message> {
    let frame = || RowsFrame {
        table: 0,
        operation: Operation::Upsert,
        count: ROWS_IN_FRAME,
        bytes: vec![7; ROWS_IN_FRAME as usize * ROW_BYTES],
    };
    (0..ROWS / ROWS_IN_FRAME).map(|_| Message::Rows(frame())).collect()
}

#[divan::bench]
fn encode(bencher: Bencher<'_, '_>) {
    let frames = frames();
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| {
        for frame in &frames {
            black_box(frame.to_frame().unwrap());
        }
    });
}

#[divan::bench]
fn decode(bencher: Bencher<'_, '_>) {
    let stream: Vec<u8> = frames().iter().flat_map(|frame| frame.to_frame().unwrap()).collect();
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| {
        let mut decoder = FrameDecoder::new(FRAME_BYTES_MAX);
        let mut frames = 0;
        for bytes in stream.chunks(READ_BYTES) {
            decoder.push(bytes);
            while let Some(frame) = decoder.next_frame().unwrap() {
                black_box(Message::decode(frame).unwrap());
                frames += 1;
            }
        }
        frames
    });
}
