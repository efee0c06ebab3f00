//! The type table, there and back.

use super::*;
use model::{RowReader, Value};
use proptest::prelude::*;

fn column(type_: &Type) -> ColumnType {
    ColumnType::of(type_.name(), type_.oid(), false, NumericAs::Text)
}

fn numeric(as_: NumericAs) -> ColumnType {
    ColumnType::of("numeric", Type::NUMERIC.oid(), false, as_)
}

fn there_and_back(column: &ColumnType, value: &Value) -> Result<Value, Misfit> {
    let mut bytes = Vec::new();
    column.write_element(value.as_ref(), &mut bytes)?;
    let len = i32::from_be_bytes(bytes[..4].try_into().unwrap());
    let raw = usize::try_from(len).ok().map(|len| &bytes[4..4 + len]);
    let reading = Reading::of(&column.wire(), column).unwrap();
    let mut row = Vec::new();
    reading.write(raw, &mut row).unwrap();
    Ok(RowReader::new(&row).value().unwrap().to_owned())
}

fn text(text: &str) -> Value {
    Value::Text(text.as_bytes().to_vec())
}

fn comes_back(column: &ColumnType, values: &[Value]) {
    for value in values {
        let back = there_and_back(column, value).unwrap();
        assert!(back.as_ref().identical(value.as_ref()), "{value:?} became {back:?}");
    }
    assert_eq!(there_and_back(column, &Value::Null), Ok(Value::Null));
}

fn refused(column: &ColumnType, values: &[Value]) {
    for value in values {
        assert!(there_and_back(column, value).is_err(), "{value:?} fits {column:?}");
    }
}

// Trap 15
#[test]
fn every_class_comes_back_identical() {
    let int = Value::Integer;
    comes_back(&column(&Type::BOOL), &[int(0), int(1)]);
    comes_back(&column(&Type::INT2), &[int(-32768), int(32767)]);
    comes_back(&column(&Type::INT4), &[int(i32::MIN.into()), int(i32::MAX.into())]);
    comes_back(&column(&Type::INT8), &[int(i64::MIN), int(0), int(i64::MAX)]);
    let reals = [0.1, -0.0, 5e-324, f64::MAX, f64::INFINITY, f64::NEG_INFINITY].map(Value::Real);
    comes_back(&column(&Type::FLOAT8), &reals);
    comes_back(&column(&Type::FLOAT8), &[text("NaN")]);
    let singles = [0.1, -1.5, 16_777_216.0, f64::INFINITY].map(Value::Real);
    comes_back(&column(&Type::FLOAT4), &singles);
    comes_back(&column(&Type::TEXT), &[text(""), text("naïve 東京 🚀"), text(" x ")]);
    comes_back(&column(&Type::BYTEA), &[Value::Blob(vec![]), Value::Blob(vec![0, 255])]);
    comes_back(&column(&Type::UUID), &[text("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")]);
    comes_back(&column(&Type::DATE), &[text("0044-03-15 BC"), text("infinity")]);
    comes_back(&column(&Type::TIME), &[text("08:30:00.25")]);
    comes_back(&column(&Type::TIMESTAMP), &[text("2024-02-29 08:30:00.000001")]);
    comes_back(&column(&Type::TIMESTAMPTZ), &[text("2024-02-29 08:30:00.000001")]);
}

// Trap 15
#[test]
fn a_numeric_is_what_the_model_says() {
    let exact = text("123456789012345678901234567890.000000000000000000012300");
    comes_back(&numeric(NumericAs::Text), &[exact.clone(), text("-0.10"), text("NaN")]);
    comes_back(&numeric(NumericAs::Real), &[Value::Real(0.1), Value::Real(f64::INFINITY)]);
    comes_back(&numeric(NumericAs::Integer), &[Value::Integer(i64::MIN), exact.clone()]);
    let affine = numeric(NumericAs::Numeric);
    comes_back(&affine, &[Value::Integer(99), Value::Real(99.5), exact, text("Infinity")]);
    assert_eq!(there_and_back(&affine, &text("12.00")), Ok(Value::Integer(12)));
    assert_eq!(there_and_back(&affine, &text("100.50")), Ok(Value::Real(100.5)));
    assert_eq!(there_and_back(&numeric(NumericAs::Text), &Value::Real(0.1)), Ok(text("0.1")));
}

// Trap 15
#[test]
fn what_does_not_fit_is_refused_and_never_bent() {
    let (int, real) = (Value::Integer, Value::Real);
    refused(&column(&Type::BOOL), &[int(2), text("true")]);
    refused(&column(&Type::INT2), &[int(32768), real(0.5), text("1"), Value::Blob(vec![1])]);
    refused(&column(&Type::INT8), &[real(9.3e18), real(f64::NAN), text("x")]);
    refused(&column(&Type::FLOAT4), &[real(1e39), real(1e-60)]);
    refused(&column(&Type::FLOAT8), &[int(i64::MAX), text("1.5"), Value::Blob(vec![])]);
    refused(&column(&Type::TEXT), &[Value::Text(b"a\0b".to_vec()), Value::Text(vec![0xff])]);
    refused(&column(&Type::TEXT), &[int(1), Value::Blob(b"a".to_vec())]);
    refused(&column(&Type::BYTEA), &[text("a")]);
    refused(&column(&Type::UUID), &[text("a0eebc99"), text("a0eebc999c0b4ef8bb6d6bb9bd380a1g")]);
    refused(&column(&Type::DATE), &[text("2023-02-29"), int(20230101)]);
    refused(&numeric(NumericAs::Text), &[text("twelve"), Value::Blob(vec![1])]);
}

#[test]
fn domains_keep_the_length_of_their_base_type_out_of_the_cast() {
    let short = ColumnType::of("character varying", Type::VARCHAR.oid(), true, NumericAs::Text);
    assert_eq!((short.kind, short.cast_from_wire()), (Kind::Text, None));
    let whole = ColumnType::of("integer", Type::INT4.oid(), true, NumericAs::Text);
    assert_eq!((whole.kind, whole.cast_from_wire()), (Kind::Other, Some("integer")));
}

#[test]
fn a_column_survives_its_way_through_the_deployment() {
    let numeric = numeric(NumericAs::Real);
    let stored = serde_json::to_string(&numeric).unwrap();
    assert_eq!(stored, r#"{"cast":"numeric","kind":{"numeric":"real"}}"#);
    assert_eq!(serde_json::from_str::<ColumnType>(&stored).unwrap(), numeric);
    // What was deployed when timestamps had one notation keeps it.
    let older = r#"{"cast":"timestamp without time zone","kind":"timestamp"}"#;
    let older = serde_json::from_str::<ColumnType>(older).unwrap();
    comes_back(&older, &[text("2024-02-29 08:30:00.000000")]);
    comes_back(&column(&Type::TIMESTAMP), &[text("2024-02-29 08:30:00")]);
}

// Trap 15
#[test]
fn a_key_in_other_letters_is_noticed() {
    let uuid = column(&Type::UUID);
    assert!(uuid.keeps_spelling(ValueRef::Text(b"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")));
    assert!(!uuid.keeps_spelling(ValueRef::Text(b"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11")));
    assert!(!column(&Type::TIMESTAMP).keeps_spelling(ValueRef::Text(b"2024-02-29T08:30")));
    assert!(!column(&Type::BPCHAR).keeps_spelling(ValueRef::Text(b"ab ")));
    assert!(column(&Type::BPCHAR).keeps_spelling(ValueRef::Text(b"ab")));
    assert!(!numeric(NumericAs::Text).keeps_spelling(ValueRef::Text(b"007")));
}

proptest! {
    // Trap 15
    #[test]
    fn short_numbers_are_what_the_long_way_makes_of_them(
        digits in 0_u64..100_000_000_000_000_000,
        divisor in 0_u32..18,
        scale in 0_usize..14,
        negative: bool,
        rubbish in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let digits = digits / 10_u64.pow(divisor);
        let padded = format!("{digits:0width$}", width = scale + 1);
        let (whole, fraction) = padded.split_at(padded.len() - scale);
        let point = if scale > 0 { "." } else { "" };
        let sign = if negative && digits > 0 { "-" } else { "" };
        let mut binary = Vec::new();
        numeric::write_binary(format!("{sign}{whole}{point}{fraction}").as_bytes(), &mut binary)
            .unwrap();
        for raw in [binary, rubbish] {
            let Some(short) = Short::read(&raw) else { continue };
            for as_ in [NumericAs::Text, NumericAs::Real, NumericAs::Integer, NumericAs::Numeric] {
                let (mut fast, mut slow) = (Vec::new(), Vec::new());
                read_long(&raw, as_, &mut slow).unwrap();
                if write_short(short, as_, &mut fast) {
                    prop_assert_eq!(&fast, &slow, "{:?} {:?}", short, as_);
                }
            }
        }
    }
}
