//! What the digests of rows tell apart, and what not.

use super::*;

fn sums(ranges: Ranges, split: u8, rows: &[(i64, &str)]) -> Sums {
    let (mut sums, mut digester) = (Sums::new(ranges, split), Digester::default());
    for (id, text) in rows {
        let row = [ValueRef::Integer(*id), ValueRef::Text(text.as_bytes())];
        let key = digester.key(row.into_iter().take(1));
        sums.add(key, digester.row(row));
    }
    sums
}

// S3
#[test]
fn rows_that_are_equal_on_the_wire_have_one_digest_however_they_are_stored() {
    let digest = |value| Digester::default().row([value]);
    assert_eq!(digest(ValueRef::Real(-0.0)), digest(ValueRef::Real(0.0)));
    assert_eq!(digest(ValueRef::Real(f64::NAN)), digest(ValueRef::Null));
    let different = [
        ValueRef::Null,
        ValueRef::Integer(0),
        ValueRef::Integer(1),
        ValueRef::Real(0.0),
        ValueRef::Real(1.0),
        ValueRef::Text(b""),
        ValueRef::Text(b"1"),
        ValueRef::Text(b"1.0"),
        ValueRef::Blob(b"1"),
        ValueRef::Text(b"1 "),
    ];
    for (at, one) in different.iter().enumerate() {
        for other in &different[at + 1..] {
            assert_ne!(digest(*one), digest(*other), "{one:?}, {other:?}");
        }
    }
    // Where one value ends counts.
    let two = |a: &'static [u8], b: &'static [u8]| {
        Digester::default().row([ValueRef::Text(a), ValueRef::Text(b)])
    };
    assert_ne!(two(b"ab", b"c"), two(b"a", b"bc"));
}

// S3, S9: cut again and again, the ranges always lead to the row, and to few others.
#[test]
fn a_row_that_differs_is_found_however_ranges_are_cut() {
    let rows: Vec<(i64, &str)> = (0..2000).map(|key| (key, "as it is")).collect();
    for (changed, splits) in [(7, [4, 4, 3]), (1999, [11, 0, 1]), (0, [1, 1, 20])] {
        let mut others = rows.clone();
        others[changed].1 = "otherwise";
        let mut ranges = Ranges::all();
        for split in splits {
            let (here, there) =
                (sums(ranges.clone(), split, &rows), sums(ranges.clone(), split, &others));
            let (differing, rows_max) = here.differing(&there.to_bytes()).unwrap();
            assert_eq!(differing.len(), 1);
            differing.check().unwrap();
            assert_eq!(here.rows(), there.rows());
            assert!(rows_max >= 1);
            ranges = differing;
        }
        let key = Digester::default().key([ValueRef::Integer(changed as i64)]);
        assert_eq!(ranges.find(key), Some(0));
        assert!(sums(ranges, 0, &rows).rows() < 20);
    }
}

// S3
#[test]
fn missing_and_additional_rows_and_rows_in_another_order_are_told_apart() {
    let rows: Vec<(i64, &str)> = (0..100).map(|key| (key, "x")).collect();
    let mut turned = rows.clone();
    turned.reverse();
    let all = |rows: &[(i64, &str)]| sums(Ranges::all(), 3, rows);
    assert_eq!(all(&rows), all(&turned));
    let differing =
        |others: &[(i64, &str)]| all(&rows).differing(&all(others).to_bytes()).unwrap().0.len();
    assert_eq!(differing(&turned), 0);
    assert_eq!(differing(&rows[1..]), 1);
    assert_eq!(differing(&[]), 8);
    let cut = &all(&rows).to_bytes()[1..];
    assert_eq!(all(&rows).differing(cut).unwrap_err().code(), Code::MalformedMessage);
}

// S9
#[test]
fn ranges_that_are_none_are_refused() {
    for (bits, prefixes) in [
        (32, vec![0]),
        (200, vec![0]),
        (2, vec![4]),
        (0, vec![1]),
        (8, vec![3, 3]),
        (8, vec![4, 3]),
    ] {
        assert!(Ranges { bits, prefixes }.check().is_err(), "{bits}");
    }
    let none = Ranges { bits: 0, prefixes: Vec::new() };
    none.check().unwrap();
    assert_eq!(none.find(KeyDigest(7)), None);
    Ranges { bits: 31, prefixes: vec![0, (1 << 31) - 1] }.check().unwrap();
}
