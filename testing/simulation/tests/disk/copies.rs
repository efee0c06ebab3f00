//! Copies of a machine's files.

use super::workload::{Damage, Mode, PATH, check, disk, write};
use simulation::vfs::{Chance, Identity};

const WAL: Mode = Mode { journal: "wal", synchronous: "FULL" };

#[test]
fn a_copy_brings_back_the_moment_it_was_made_in() {
    let _chance = Chance::seed(5);
    let (disk, _) = disk(5);
    WAL.prepare(&disk);
    let mut committed = 0;
    write(&disk, WAL, &mut committed).unwrap();
    // While a program has the file open, so that the WAL belongs to it.
    let open = WAL.open(&disk).unwrap();
    open.execute_batch("UPDATE line SET text = 'x' WHERE batch = 0").unwrap();
    let image = disk.image();
    assert_eq!(image.names().collect::<Vec<_>>(), [PATH, "/shop.db-wal"]);
    drop(open);

    let mut later = committed;
    write(&disk, WAL, &mut later).unwrap();
    for identity in [Identity::New, Identity::Same] {
        disk.put(&image, identity);
        assert_eq!(disk.image() == image, identity == Identity::Same);
        assert_eq!(disk.image().fingerprint(), image.fingerprint());
        let mut there = committed;
        assert_eq!(check(&disk, WAL, &mut there), Damage::default());
        assert_eq!(there, committed);
        let open = WAL.open(&disk).unwrap();
        let rows: i64 = open
            .query_row("SELECT count(*) FROM line WHERE text = 'x'", [], |row| row.get(0))
            .unwrap();
        assert_eq!(rows, 5);
    }
}

#[test]
fn a_copy_can_be_put_on_another_machine() {
    let _chance = Chance::seed(6);
    let ((one, _), (other, _)) = (disk(6), disk(7));
    WAL.prepare(&one);
    let mut committed = 0;
    write(&one, WAL, &mut committed).unwrap();
    other.put(&one.image(), Identity::New);
    let mut there = committed;
    assert_eq!(check(&other, WAL, &mut there), Damage::default());
    assert_eq!(there, committed);
    assert!(one.image() != other.image(), "files have other numbers");
}
