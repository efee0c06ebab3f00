//! Changes of rows that all remotes change, in SQL that both databases understand.

use super::place::Place;
use harness::Chance;

/// One change, as statements of one transaction. `first` is where the keys of this site begin.
pub(crate) fn draw(first: i64, chance: &mut Chance, place: &Place) -> Vec<String> {
    let own = first + chance.below(200) as i64;
    let (number, badge) = (chance.below(1000), chance.below(40));
    let (customer, order) = (some("customer", chance), some("order", chance));
    match chance.below(18) {
        0 | 1 => vec![format!(
            "INSERT INTO customer (id, {{customer}}, badge, visits)
             VALUES ({own}, 'new', {badge}, {number}) ON CONFLICT DO NOTHING"
        )],
        2 | 3 => vec![format!("UPDATE customer SET visits = visits + 1 WHERE id = {customer}")],
        4 => vec![format!("DELETE FROM customer WHERE id = {customer} AND id > 5")],
        5 | 6 => vec![
            format!(
                "INSERT INTO \"order\" (id, note, customer_id) SELECT {own}, 'note', id
                 FROM customer WHERE id = {customer} ON CONFLICT DO NOTHING"
            ),
            format!(
                "INSERT INTO line (order_id, number, amount) SELECT id, {number}, 1.5
                 FROM \"order\" WHERE id = {own} ON CONFLICT DO NOTHING"
            ),
        ],
        7 => vec![format!(
            "UPDATE \"order\" SET note = 'note {number}', customer_id = {customer}
             WHERE id = {order}"
        )],
        8 => vec![format!("DELETE FROM \"order\" WHERE id = {order}")],
        9 if matches!(place, Place::File(_)) => {
            vec![format!("UPDATE OR REPLACE customer SET badge = {badge} WHERE id = {customer}")]
        }
        9 | 10 => vec![
            format!("UPDATE customer SET badge = NULL WHERE badge = {badge}"),
            format!("UPDATE customer SET badge = {badge} WHERE id = {customer}"),
        ],
        11 => vec![format!("UPDATE line SET amount = {number} WHERE order_id = {order}")],
        12 => {
            vec![format!("UPDATE customer SET {{customer}} = 'by {number}' WHERE id = {customer}")]
        }
        13 => vec![format!("UPDATE \"order\" SET {{added}} = {number} WHERE id = {order}")],
        _ if first > 0 => new_key(own, &customer, chance),
        other => key_change(own, other, &customer, &order),
    }
}

/// A remote enters a row, and gives it another key before anybody else knows it.
fn new_key(own: i64, customer: &str, chance: &mut Chance) -> Vec<String> {
    let fresh = -1 - chance.below(1 << 40) as i64;
    vec![
        format!(
            "INSERT INTO \"order\" (id, note, customer_id) SELECT {fresh}, 'entered', id
             FROM customer WHERE id = {customer}"
        ),
        format!(
            "UPDATE \"order\" SET id = {own} WHERE id = {fresh}
             AND NOT EXISTS (SELECT 1 FROM \"order\" AS taken WHERE taken.id = {own})"
        ),
    ]
}

/// At the center a row gets another key, and those that refer to it go with it.
fn key_change(own: i64, way: u64, customer: &str, order: &str) -> Vec<String> {
    let free = |table: &str, key: i64| {
        format!("NOT EXISTS (SELECT 1 FROM \"{table}\" AS taken WHERE taken.id = {key})")
    };
    match way {
        14 => vec![format!(
            "UPDATE customer SET id = {own} WHERE id = {customer} AND id > 5 AND {}",
            free("customer", own)
        )],
        15 => {
            vec![format!(
                "UPDATE \"order\" SET id = {own} WHERE id = {order} AND {}",
                free("order", own)
            )]
        }
        16 => vec![format!(
            "UPDATE line SET number = 1000 + {own} WHERE order_id = {order}
             AND number = (SELECT min(number) FROM line WHERE order_id = {order})
             AND NOT EXISTS (SELECT 1 FROM line WHERE order_id = {order} AND number = 1000 + {own})"
        )],
        // Two rows exchange their keys, where both are there.
        _ => ["customer", "order"]
            .into_iter()
            .flat_map(|table| {
                let step = |to: i64, from: i64| {
                    format!("UPDATE \"{table}\" SET id = {to} WHERE id = {from}")
                };
                [step(-own, own), step(own, own + 1), step(own + 1, -own)]
            })
            .collect(),
    }
}

/// Some row that is there, whichever it is.
fn some(table: &str, chance: &mut Chance) -> String {
    let skip = chance.below(50);
    format!(
        "(SELECT id FROM \"{table}\" ORDER BY id LIMIT 1
          OFFSET {skip} % (SELECT count(*) + CASE WHEN count(*) = 0 THEN 1 ELSE 0 END
          FROM \"{table}\"))"
    )
}
