//! What happens to some fleets only.
//!
//! It is drawn from chance of its own, so the stories of the other seeds stay as they are.

use super::cut::Cut;
use super::walk::Walk;
use client::Mode;
use harness::Chance;

/// The first seed of a fleet to which this happens.
pub(crate) const FIRST_SEED: u64 = 1000;
/// One of so many steps is one of these.
const SHARE: u64 = 4;
/// Files of one fleet. Where there are more, one is lost, with what waits there.
const SITES_MAX: usize = 5;
/// Bytes after which an application writes while its file is synchronized.
const MEANWHILE_BYTES_MAX: u64 = 6000;

pub(crate) struct Upheaval {
    pub(crate) chance: Chance,
    /// Files that have been copied, and those that were there first.
    copies: u64,
}

impl Upheaval {
    pub(crate) fn of_seed(seed: u64) -> Option<Upheaval> {
        let chance = Chance::from_seed(seed).split();
        (seed >= FIRST_SEED).then_some(Upheaval { chance, copies: 3 })
    }

    /// Whether the next step is one of these.
    pub(crate) fn comes(&mut self) -> bool {
        self.chance.below(SHARE) == 0
    }

    pub(crate) fn go(&mut self, walk: &mut Walk) {
        match self.chance.below(10) {
            0..=3 => self.change_schema(walk),
            4 => self.restart(walk),
            5 => self.copy(walk),
            6 => self.detach(walk),
            7 => self.change_claims(walk),
            _ => self.write_meanwhile(walk),
        }
    }

    /// The owner changes tables; applications may go on before that is deployed.
    fn change_schema(&mut self, walk: &mut Walk) {
        if self.chance.below(2) == 0 {
            walk.write_at_a_remote();
        }
        for _ in 0..=self.chance.below(2) {
            let is_sqlite = walk.center.is_sqlite();
            for sql in walk.shop.change_schema(is_sqlite, &mut self.chance) {
                println!("center: {sql}");
                walk.center.own(&sql);
            }
        }
        if self.chance.below(3) == 0 {
            walk.write_at_the_center();
        }
        walk.deploy();
        if self.chance.below(2) == 0 {
            let at = walk.some_site();
            let (mode, cut) = (walk.mode(), walk.cut());
            walk.synchronize(at, mode, cut, None);
        }
    }

    /// The server stops, perhaps when it has just lost a remote, and another one starts.
    fn restart(&mut self, walk: &mut Walk) {
        let at = walk.some_site();
        if self.chance.below(2) == 0 {
            let (mode, cut) = (walk.mode(), walk.cut());
            walk.synchronize(at, mode, cut, None);
        }
        println!("the server starts again");
        walk.server.take().unwrap().drain();
        walk.start_server();
        walk.synchronize_surely(at);
    }

    /// A file is copied. The first of the two that synchronizes goes on as the remote that it was.
    fn copy(&mut self, walk: &mut Walk) {
        let at = walk.some_site();
        self.copies += 1;
        let copy = walk.sites[at].copy(walk.folder.path(), self.copies, self.chance.split());
        println!("{} is copied to {}", walk.sites[at].name, copy.name);
        walk.sites.push(copy);
        if walk.sites.len() > SITES_MAX {
            let lost = walk.sites.remove(self.chance.below(SITES_MAX as u64) as usize);
            println!("{} is lost", lost.name);
        }
    }

    /// A file is an ordinary database for a while.
    fn detach(&mut self, walk: &mut Walk) {
        let site = walk.some_site();
        let site = &mut walk.sites[site];
        println!("{} is detached", site.name);
        for what in site.detach(self.chance.below(3)) {
            println!("{} without us: {what}", site.name);
        }
    }

    /// Claims change while edits wait everywhere.
    fn change_claims(&mut self, walk: &mut Walk) {
        for _ in 0..4 {
            walk.write_at_a_remote();
        }
        walk.change_claims();
        let at = walk.some_site();
        walk.synchronize(at, Mode::Full, Cut::default(), None);
    }

    /// The application of a remote does not wait until it is synchronized.
    fn write_meanwhile(&mut self, walk: &mut Walk) {
        let at = walk.some_site();
        let (mode, cut) = (walk.mode(), walk.cut());
        let bytes = self.chance.below(MEANWHILE_BYTES_MAX) as usize;
        let meanwhile = walk.sites[at].meanwhile(bytes);
        walk.synchronize(at, mode, cut, meanwhile.as_ref());
    }
}
