//! Downloads beside changes that wait.

use super::{centre, family, joined, rows, sync, sync_as};
use crate::testing::centre::Centre;
use crate::testing::{Site, int, text};
use model::Code;
use protocol::Mode;

// S11: a download that a pending change stood in the way of failed with the advice to try again,
// for ever.
#[test]
fn a_change_in_the_way_of_a_mere_download_is_told_with_the_way_on() {
    let centre = Centre::new(&family());
    centre.borrow_mut().put(0, &[int(1), text("parent")]);
    let mut site = Site::empty();
    sync(&mut site, &centre).unwrap();
    site.write("INSERT INTO t VALUES (10, 1)");
    centre.borrow_mut().remove(0, 1);
    for _ in 0..2 {
        let refused = sync_as(&mut site.remote, &centre, Mode::DownloadOnly, &mut |_| {});
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::DownloadBlocked);
        assert!(!refused.code().retry() && refused.hint_text().contains("--download-only"));
        assert_eq!(site.rows("SELECT * FROM t"), ["10, 1"], "nothing was applied");
    }
    sync(&mut site, &centre).unwrap();
    assert_eq!(centre.borrow().lines(1), ["10, 1"], "the way on leads on");
}

// S3: a row that was changed and changed back stayed as it was although the centre's came, and one
// stood in the way of a delete.
#[test]
fn a_change_that_was_undone_is_in_nobodys_way() {
    let centre = centre();
    let mut site = joined(&centre);
    site.write("UPDATE t SET v = 'mine' WHERE id = 1; UPDATE t SET v = 'one' WHERE id = 1");
    centre.borrow_mut().put(0, &[int(1), text("theirs")]);
    sync_as(&mut site.remote, &centre, Mode::DownloadOnly, &mut |_| {}).unwrap();
    assert_eq!(rows(&site), ["1, 'theirs'"]);
    // Undone behind a download that was kept beside the change.
    site.write("UPDATE t SET v = 'mine' WHERE id = 1");
    centre.borrow_mut().put(0, &[int(1), text("newer")]);
    sync_as(&mut site.remote, &centre, Mode::DownloadOnly, &mut |_| {}).unwrap();
    assert_eq!(rows(&site), ["1, 'mine'"]);
    site.write("UPDATE t SET v = 'theirs' WHERE id = 1");
    sync_as(&mut site.remote, &centre, Mode::DownloadOnly, &mut |_| {}).unwrap();
    assert_eq!(rows(&site), ["1, 'newer'"]);

    let centre = Centre::new(&family());
    centre.borrow_mut().put(0, &[int(1), text("parent")]);
    centre.borrow_mut().put(1, &[int(10), int(1)]);
    let mut site = Site::empty();
    sync(&mut site, &centre).unwrap();
    site.write("UPDATE t SET p = NULL WHERE id = 10; UPDATE t SET p = 1 WHERE id = 10");
    centre.borrow_mut().remove(1, 10);
    centre.borrow_mut().remove(0, 1);
    sync_as(&mut site.remote, &centre, Mode::DownloadOnly, &mut |_| {}).unwrap();
    assert_eq!(site.rows("SELECT * FROM t"), Vec::<String>::new());
    assert_eq!(site.rows("SELECT * FROM p"), Vec::<String>::new());
}
