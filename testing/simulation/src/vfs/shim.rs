//! What SQLite calls: its interface for operating systems, put on a [`Machine`].
//!
//! The pointers in it come from SQLite, which keeps to the rules of its documentation: a file is
//! used between its opening and its closing, and a buffer has as many bytes as it says.

#![allow(unsafe_code, reason = "SQLite is written in C and calls these functions with pointers")]

use super::locks::Level;
use super::machine::{HandleId, Machine, Opening};
use super::memory::Region;
use super::operation::Outcome;
use super::slot;
use super::system::System;
use rusqlite::ffi;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Arc, MutexGuard};

/// A file as SQLite holds it: the first field is what SQLite knows.
#[repr(C)]
struct File {
    methods: ffi::sqlite3_file,
    /// From `Box::into_raw`, until the file is closed.
    open: *mut Open,
}

struct Open {
    system: Arc<System>,
    id: HandleId,
    /// What SQLite has addresses of.
    regions: Vec<Region>,
}

impl Open {
    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.system.machine()
    }
}

/// How large a file is for SQLite.
pub(super) const FILE_BYTES: c_int = size_of::<File>() as c_int;

/// What a path may have at most, and its zero.
pub(super) const PATH_BYTES_MAX: c_int = 512;

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(memory_map),
    xShmLock: Some(memory_lock),
    xShmBarrier: Some(memory_barrier),
    xShmUnmap: Some(memory_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// The functions of a machine, without its name.
pub(super) fn methods() -> ffi::sqlite3_vfs {
    ffi::sqlite3_vfs {
        iVersion: 2,
        szOsFile: FILE_BYTES,
        mxPathname: PATH_BYTES_MAX,
        pNext: std::ptr::null_mut(),
        zName: std::ptr::null(),
        pAppData: std::ptr::null_mut(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_path_name),
        xDlOpen: Some(load_library),
        xDlError: Some(library_error),
        xDlSym: None,
        xDlClose: None,
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: Some(last_error),
        xCurrentTimeInt64: Some(current_time_ms),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }
}

fn code(outcome: Outcome<()>) -> c_int {
    outcome.err().unwrap_or(ffi::SQLITE_OK)
}

/// What is open behind a file of SQLite.
unsafe fn opened<'a>(file: *mut ffi::sqlite3_file) -> &'a mut Open {
    // SAFETY: SQLite calls methods of a file that `open` filled in and `close` did not see yet,
    // from one thread at a time.
    unsafe { &mut *(*file.cast::<File>()).open }
}

/// A name that SQLite gives; none for a file without one.
unsafe fn text<'a>(name: *const c_char) -> Option<&'a str> {
    if name.is_null() {
        return None;
    }
    // SAFETY: a name of SQLite ends with a zero and lasts for the call.
    unsafe { CStr::from_ptr(name) }.to_str().ok()
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    let file = file.cast::<File>();
    // SAFETY: SQLite gives room of `szOsFile` bytes. Without methods it does not close the file.
    unsafe { (*file).methods.pMethods = std::ptr::null() };
    // SAFETY: the table was registered with its slot.
    let Some(system) = (unsafe { slot::system(vfs) }) else { return ffi::SQLITE_CANTOPEN };
    // SAFETY: the name is one of SQLite.
    let named = unsafe { text(name) };
    if named.is_none() && !name.is_null() {
        return ffi::SQLITE_CANTOPEN;
    }
    let journals =
        ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_SUPER_JOURNAL | ffi::SQLITE_OPEN_WAL;
    let opening = Opening {
        may_create: flags & ffi::SQLITE_OPEN_CREATE != 0,
        must_create: flags & ffi::SQLITE_OPEN_EXCLUSIVE != 0,
        delete_on_close: flags & ffi::SQLITE_OPEN_DELETEONCLOSE != 0,
        syncs_names: flags & journals != 0,
    };
    let outcome = system.machine().open(named, opening);
    match outcome {
        Ok(id) => {
            let open = Box::new(Open { system, id, regions: Vec::new() });
            // SAFETY: as above; what `flags_out` points to is SQLite's, where it is given.
            unsafe {
                (*file).open = Box::into_raw(open);
                (*file).methods.pMethods = &METHODS;
                if !flags_out.is_null() {
                    *flags_out = flags;
                }
            }
            ffi::SQLITE_OK
        }
        Err(code) => code,
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: `open` has made it, and a file is closed once.
    let open = unsafe { Box::from_raw((*file.cast::<File>()).open) };
    open.machine().close(open.id);
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    buffer: *mut c_void,
    bytes: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: the buffer has as many bytes, and belongs to SQLite until this returns.
    let buffer = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), bytes as usize) };
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    let outcome = open.machine().read(open.id, offset as usize, buffer);
    match outcome {
        Ok(len) if len < buffer.len() => ffi::SQLITE_IOERR_SHORT_READ,
        Ok(_) => ffi::SQLITE_OK,
        Err(code) => code,
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    len: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: there are as many bytes, and nobody changes them until this returns.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), len as usize) };
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    code(open.machine().write(open.id, offset as usize, bytes))
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, len: ffi::sqlite3_int64) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    code(open.machine().truncate(open.id, len as usize))
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    code(open.machine().sync(open.id))
}

unsafe extern "C" fn file_size(
    file: *mut ffi::sqlite3_file,
    size: *mut ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    let outcome = open.machine().size(open.id);
    // SAFETY: SQLite waits for a number there.
    code(outcome.map(|len| unsafe { *size = len as ffi::sqlite3_int64 }))
}

fn level(lock: c_int) -> Level {
    match lock {
        ffi::SQLITE_LOCK_NONE => Level::None,
        ffi::SQLITE_LOCK_SHARED => Level::Shared,
        ffi::SQLITE_LOCK_RESERVED => Level::Reserved,
        ffi::SQLITE_LOCK_PENDING => Level::Pending,
        _ => Level::Exclusive,
    }
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, wanted: c_int) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    code(open.machine().lock(open.id, level(wanted)))
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, to: c_int) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    open.machine().unlock(open.id, level(to));
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(
    file: *mut ffi::sqlite3_file,
    result: *mut c_int,
) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    let outcome = open.machine().is_reserved(open.id);
    // SAFETY: SQLite waits for a number there.
    code(outcome.map(|is_reserved| unsafe { *result = c_int::from(is_reserved) }))
}

unsafe extern "C" fn file_control(
    file: *mut ffi::sqlite3_file,
    control: c_int,
    argument: *mut c_void,
) -> c_int {
    if control != ffi::SQLITE_FCNTL_LOCKSTATE {
        return ffi::SQLITE_NOTFOUND;
    }
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    let level = open.machine().level(open.id);
    // SAFETY: for this control the argument is where a number belongs.
    unsafe { *argument.cast::<c_int>() = level as c_int };
    ffi::SQLITE_OK
}

unsafe extern "C" fn sector_size(_file: *mut ffi::sqlite3_file) -> c_int {
    super::contents::SECTOR_BYTES as c_int
}

/// It promises nothing: appending is not safe, and a write may be torn.
unsafe extern "C" fn device_characteristics(_file: *mut ffi::sqlite3_file) -> c_int {
    0
}

unsafe extern "C" fn memory_map(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    bytes: c_int,
    make: c_int,
    address: *mut *mut c_void,
) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    let outcome = open.machine().map_memory(open.id, region as usize, bytes as usize, make != 0);
    let (found, code) = match outcome {
        Ok(Some(region)) => (region.address().cast(), {
            open.regions.push(region);
            ffi::SQLITE_OK
        }),
        Ok(None) => (std::ptr::null_mut(), ffi::SQLITE_OK),
        Err(code) => (std::ptr::null_mut(), code),
    };
    // SAFETY: SQLite waits for an address there.
    unsafe { *address = found };
    code
}

unsafe extern "C" fn memory_lock(
    file: *mut ffi::sqlite3_file,
    offset: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    let mask = ((1_u32 << count) - 1) << offset;
    let is_exclusive = flags & ffi::SQLITE_SHM_EXCLUSIVE != 0;
    if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
        open.machine().unlock_memory(open.id, mask);
        return ffi::SQLITE_OK;
    }
    code(open.machine().lock_memory(open.id, mask, is_exclusive))
}

unsafe extern "C" fn memory_barrier(_file: *mut ffi::sqlite3_file) {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

unsafe extern "C" fn memory_unmap(file: *mut ffi::sqlite3_file, _delete: c_int) -> c_int {
    // SAFETY: the file is open.
    let open = unsafe { opened(file) };
    open.machine().unmap_memory(open.id);
    open.regions.clear();
    ffi::SQLITE_OK
}

unsafe extern "C" fn delete(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    syncs_names: c_int,
) -> c_int {
    // SAFETY: the table was registered with its slot, and the name is one of SQLite.
    match unsafe { (slot::system(vfs), text(name)) } {
        (Some(system), Some(name)) => code(system.machine().delete(name, syncs_names != 0)),
        _ => ffi::SQLITE_IOERR_DELETE,
    }
}

unsafe extern "C" fn access(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    result: *mut c_int,
) -> c_int {
    // SAFETY: the table was registered with its slot, and the name is one of SQLite.
    let (Some(system), Some(name)) = (unsafe { (slot::system(vfs), text(name)) }) else {
        return ffi::SQLITE_IOERR_ACCESS;
    };
    // As on Unix, where a journal without content is as good as none.
    let outcome = system.machine().exists(name, flags == ffi::SQLITE_ACCESS_EXISTS);
    // SAFETY: SQLite waits for a number there.
    code(outcome.map(|exists| unsafe { *result = c_int::from(exists) }))
}

unsafe extern "C" fn full_path_name(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    full: *mut c_char,
) -> c_int {
    // SAFETY: the name is one of SQLite.
    let Some(name) = (unsafe { text(name) }) else { return ffi::SQLITE_CANTOPEN };
    if name.len() >= room as usize {
        return ffi::SQLITE_CANTOPEN;
    }
    // SAFETY: there is room for the name and its zero, as was just seen.
    unsafe {
        std::ptr::copy_nonoverlapping(name.as_ptr(), full.cast::<u8>(), name.len());
        *full.add(name.len()) = 0;
    }
    ffi::SQLITE_OK
}

/// There are no libraries on this machine.
unsafe extern "C" fn load_library(
    _vfs: *mut ffi::sqlite3_vfs,
    _name: *const c_char,
) -> *mut c_void {
    std::ptr::null_mut()
}

unsafe extern "C" fn library_error(_vfs: *mut ffi::sqlite3_vfs, room: c_int, message: *mut c_char) {
    if room > 0 {
        // SAFETY: there is room for one byte.
        unsafe { *message = 0 };
    }
}

unsafe extern "C" fn randomness(
    vfs: *mut ffi::sqlite3_vfs,
    bytes: c_int,
    buffer: *mut c_char,
) -> c_int {
    // SAFETY: the buffer has as many bytes, and belongs to SQLite until this returns.
    let buffer = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), bytes as usize) };
    // SAFETY: the table was registered with its slot.
    match unsafe { slot::system(vfs) } {
        Some(system) => system.machine().draw(buffer),
        None => buffer.fill(0),
    }
    bytes
}

unsafe extern "C" fn sleep(vfs: *mut ffi::sqlite3_vfs, microseconds: c_int) -> c_int {
    // SAFETY: the table was registered with its slot.
    if let Some(system) = unsafe { slot::system(vfs) } {
        system.sleep(microseconds.unsigned_abs().into());
    }
    microseconds
}

/// From noon of the first Julian day to 1970.
const JULIAN_MS: i64 = 210_866_760_000_000;

unsafe fn julian_ms(vfs: *mut ffi::sqlite3_vfs) -> i64 {
    // SAFETY: the table was registered with its slot.
    unsafe { slot::system(vfs) }.map_or(0, |system| system.unix_ms()) + JULIAN_MS
}

unsafe extern "C" fn current_time(vfs: *mut ffi::sqlite3_vfs, days: *mut f64) -> c_int {
    // SAFETY: SQLite waits for a number there, and the table was registered with its slot.
    unsafe { *days = julian_ms(vfs) as f64 / 86_400_000.0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn current_time_ms(
    vfs: *mut ffi::sqlite3_vfs,
    ms: *mut ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite waits for a number there, and the table was registered with its slot.
    unsafe { *ms = julian_ms(vfs) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn last_error(
    _vfs: *mut ffi::sqlite3_vfs,
    _room: c_int,
    _message: *mut c_char,
) -> c_int {
    0
}
