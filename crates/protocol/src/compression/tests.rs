//! Rows that are packed and unpacked, and all that can be wrong with them.

use super::*;
use crate::FRAME_BYTES_MAX;
use crate::message::Operation;

const BOTH: Capabilities = Capabilities::LZ4.and(Capabilities::ZSTD);

/// A frame with so many bytes of rows that can be compressed.
fn frame_of(bytes: Vec<u8>) -> Vec<u8> {
    let rows = RowsFrame { table: 513, operation: Operation::Upsert, count: 7, bytes };
    Message::Rows(rows).to_frame().unwrap()
}

fn notes(len: usize) -> Vec<u8> {
    let line = |n: usize| format!("note {n}: the customer was not there, call again\n");
    (0..).flat_map(|n| line(n).into_bytes()).take(len).collect()
}

/// Bytes that nothing makes smaller.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn compressed(method: Compression, bytes: Vec<u8>) -> Vec<u8> {
    let mut frame = frame_of(bytes);
    Compressor::default().compress(method, &mut frame).unwrap();
    frame
}

fn raw(frame: &[u8]) -> RawFrame {
    let mut decoder = crate::FrameDecoder::new(FRAME_BYTES_MAX);
    decoder.push(frame);
    let frame = decoder.next_frame().unwrap().unwrap();
    assert!(decoder.is_empty());
    frame
}

/// What a reader makes of the payload of packed rows, in both of its ways.
fn read(payload: &[u8], frame_bytes_max: usize) -> Result<RowsFrame, Code> {
    let mut decompressor = Decompressor::default();
    let unpacked = PackedRows::parse(payload, frame_bytes_max, BOTH)
        .and_then(|rows| decompressor.unpack(rows))
        .and_then(|frame| RowsFrame::from_payload(frame.payload))
        .map_err(|failure| failure.code());
    let frame = RawFrame { frame_type: Message::PACKED_ROWS_TYPE, payload: payload.to_vec() };
    let decoded = decompressor.decode(frame, frame_bytes_max, BOTH);
    match (decoded, &unpacked) {
        (Ok(Some(Message::Rows(rows))), Ok(same)) => assert_eq!(rows, *same),
        (Err(failure), Err(code)) => assert_eq!(failure.code(), *code),
        (decoded, unpacked) => panic!("{decoded:?} and {unpacked:?}"),
    }
    unpacked
}

#[test]
fn compressed_rows_come_back_as_they_were() {
    for method in Compression::ALL {
        let mut compressor = Compressor::default();
        for len in [128, 1000, 65_535, 65_536, 300_000, 9 << 20, 200] {
            let original = frame_of(notes(len));
            let mut frame = original.clone();
            compressor.compress(method, &mut frame).unwrap();
            assert!(frame.len() < original.len(), "{method:?} {len}");
            let frame = raw(&frame);
            assert_eq!(frame.frame_type, Message::PACKED_ROWS_TYPE);
            let rows = read(&frame.payload, FRAME_BYTES_MAX).unwrap();
            assert!(Message::Rows(rows).to_frame().unwrap() == original, "{method:?} {len}");
        }
    }
}

#[test]
fn what_compression_would_not_make_smaller_stays_as_it_is() {
    let mut others = vec![Message::Heartbeat.to_frame().unwrap()];
    let end = crate::UploadEnd { rows: 3 };
    others.push(Message::UploadEnd(end).to_frame().unwrap());
    others.extend([notes(127), noise(300_000), Vec::new()].map(frame_of));
    for method in Compression::ALL {
        let mut compressor = Compressor::default();
        for original in &others {
            let mut frame = original.clone();
            compressor.compress(method, &mut frame).unwrap();
            assert!(frame == *original, "{method:?}");
        }
    }
}

// S9: before any room is made for what they announce.
#[test]
fn announcements_that_cannot_be_true_are_refused() {
    for method in Compression::ALL {
        let good = raw(&compressed(method, notes(5000))).payload;
        let at = RowsFrame::PREFIX_BYTES + 1;
        let announced = |len: u32| {
            let mut payload = good.clone();
            payload[at..at + 4].copy_from_slice(&len.to_le_bytes());
            read(&payload, FRAME_BYTES_MAX)
        };
        for len in [0, 1, 4999, 5001, 60 << 20] {
            assert_eq!(announced(len), Err(Code::CompressionBroken), "{method:?} {len}");
        }
        assert_eq!(announced(u32::MAX), Err(Code::FrameTooLarge));
        assert_eq!(read(&good, 5006), Err(Code::FrameTooLarge));
        assert!(read(&good, 5007).is_ok());
    }
}

// S9
#[test]
fn broken_rows_are_refused_wherever_they_are_broken() {
    for method in Compression::ALL {
        let good = raw(&compressed(method, notes(5000))).payload;
        for len in 0..good.len() {
            let expected = match len < PackedRows::PREFIX_BYTES {
                true => Code::MalformedMessage,
                false => Code::CompressionBroken,
            };
            assert_eq!(read(&good[..len], FRAME_BYTES_MAX), Err(expected), "{method:?} {len}");
        }
        let mut longer = good.clone();
        longer.extend_from_slice(b"more");
        assert_eq!(read(&longer, FRAME_BYTES_MAX), Err(Code::CompressionBroken), "{method:?}");
        let mut twice = good.clone();
        twice.extend_from_slice(&good[PackedRows::PREFIX_BYTES..]);
        assert_eq!(read(&twice, FRAME_BYTES_MAX), Err(Code::CompressionBroken), "{method:?}");
    }
}

#[test]
fn only_what_was_agreed_on_is_read() {
    let good = raw(&compressed(Compression::Lz4, notes(500)));
    let refused = PackedRows::parse(&good.payload, FRAME_BYTES_MAX, Capabilities::ZSTD);
    assert_eq!(refused.unwrap_err().code(), Code::CompressionNotAgreed);
    assert_eq!(Message::decode(good.clone()).unwrap_err().code(), Code::CompressionNotAgreed);
    for method in [0, 3, 255] {
        let mut payload = good.payload.clone();
        payload[RowsFrame::PREFIX_BYTES] = method;
        assert_eq!(read(&payload, FRAME_BYTES_MAX), Err(Code::CompressionNotAgreed));
    }
    let both = [Compression::Zstd, Compression::Lz4];
    assert_eq!(Compression::agreed(&both, BOTH), Some(Compression::Zstd));
    assert_eq!(Compression::agreed(&both, Capabilities::LZ4), Some(Compression::Lz4));
    assert_eq!(Compression::agreed(&both, Capabilities::NONE), None);
    assert_eq!(Compression::agreed(&[], BOTH), None);
}

/// Packed rows that announce `len` bytes, with this frame of Zstandard.
fn zstd_payload(len: u32, frame: &[u8]) -> Vec<u8> {
    let mut payload = vec![0, 0, 4, 1, 0, 0, 0, Compression::Zstd as u8];
    payload.extend_from_slice(&len.to_le_bytes());
    payload.extend_from_slice(frame);
    payload
}

// S9
#[test]
fn a_frame_that_wants_more_memory_than_every_reader_has_is_refused() {
    let magic = [0x28, 0xb5, 0x2f, 0xfd];
    let frame = |rest: &[u8]| [&magic[..], rest].concat();
    // A window of 16 MiB, then the size and a block.
    let wide = frame(&[0x80, 14 << 3, 200, 0, 0, 0, 3, 0, 0, 0]);
    assert_eq!(read(&zstd_payload(200, &wide), 1 << 20), Err(Code::CompressionWindow));
    // One that needs dictionary 7.
    let with_dictionary = frame(&[0x21, 7, 200, 3, 0, 0]);
    assert_eq!(read(&zstd_payload(200, &with_dictionary), 1 << 20), Err(Code::CompressionWindow));
    // A whole frame of 60 MiB as one segment, as large as its window.
    let segment = frame(&[0xa0, 0, 0, 0xc0, 3, 3, 0, 0]);
    assert_eq!(read(&zstd_payload(60 << 20, &segment), 64 << 20), Err(Code::CompressionWindow));
    // Our own frames keep to it, however large they are.
    let frame = raw(&compressed(Compression::Zstd, notes(40 << 20)));
    assert!(read(&frame.payload, FRAME_BYTES_MAX).is_ok());
}

// S9: a few bytes that stand for as many as a frame may have are unpacked into exactly these.
#[test]
fn a_bomb_takes_no_more_than_it_announces() {
    for method in Compression::ALL {
        let bomb = raw(&compressed(method, vec![0; 8 << 20])).payload;
        assert!(bomb.len() < 40_000, "{method:?}: {} bytes", bomb.len());
        let rows = read(&bomb, FRAME_BYTES_MAX).unwrap();
        assert_eq!(rows.bytes.len(), 8 << 20);
        assert!(rows.bytes.capacity() <= RowsFrame::PREFIX_BYTES + (8 << 20));
        assert_eq!(read(&bomb, 1 << 20), Err(Code::FrameTooLarge));
    }
}
