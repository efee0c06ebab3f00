"""A client of Syncline, written from docs/internals/protocol.md with the standard library alone.

    client.py tcp://HOST:PORT FILE --user NAME --password-file F [--remote-id ID]

It synchronizes an SQLite file and prints one JSON object. What is uploaded is the difference to a copy
of each table as it was synchronized last, so rows may be written by any program.
"""

import argparse, json, secrets, socket, sqlite3, struct, sys

VERSION, VERSION_MIN, DEPTH_MAX, FRAME_MAX = 2, 1, 32, 64 << 20
NAMES = dict(enumerate("hello welcome schema_change upload_begin rows upload_end upload_committed "
                       "rejects download_begin download_end failed".split(), 1)) | {16: "packed_rows"}
TYPES = {name: number for number, name in NAMES.items()}
INSERT, UPDATE, DELETE, UPSERT, KEY_CHANGE, ABSENT = 1, 2, 3, 4, 5, object()

class Failure(Exception):
    """What ends a synchronization, with the number of its error."""
    def __init__(self, code, message, fields=None):
        super().__init__(f"E{code}: {message}")
        self.code, self.fields = code, fields or {}

# MessagePack, as much of it as the messages use.
def pack(value):
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        return struct.pack(">Bq", 0xd3, value)
    if isinstance(value, str):
        return struct.pack(">BI", 0xdb, len(value.encode())) + value.encode()
    if isinstance(value, bytes):
        return struct.pack(">BI", 0xc6, len(value)) + value
    if isinstance(value, list):
        return struct.pack(">BI", 0xdd, len(value)) + b"".join(map(pack, value))
    fields = b"".join(pack(part) for field in value.items() for part in field)
    return struct.pack(">BI", 0xdf, len(value)) + fields

class Unpacker:
    """Reads one value; whatever is wrong is E1003."""
    SIMPLE = {0xc0: None, 0xc2: False, 0xc3: True}
    SIZED = {0xcc: "B", 0xcd: "H", 0xce: "I", 0xcf: "Q", 0xd0: "b", 0xd1: "h", 0xd2: "i", 0xd3: "q",
             0xca: "f", 0xcb: "d"}
    LENGTHS = {first + n: ("BHI"[-count:][n], kind) for first, count, kind in
               ((0xd9, 3, "text"), (0xc4, 3, "bytes"), (0xdc, 2, "array"), (0xde, 2, "map"))
               for n in range(count)}

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if count > len(self.data) - self.at:
            raise Failure(1003, "a message is cut")
        self.at += count
        return self.data[self.at - count:self.at]

    def number(self, form):
        return struct.unpack(">" + form, self.take(struct.calcsize(form)))[0]

    def value(self, depth=0):
        head = self.take(1)[0]
        if head < 0x80:
            return head
        if head >= 0xe0:
            return head - 256
        if head < 0xc0:
            kind, low = ("map", 15) if head < 0x90 else ("array", 15) if head < 0xa0 else ("text", 31)
            return self.sized(kind, head & low, depth)
        if head in self.SIMPLE:
            return self.SIMPLE[head]
        if head in self.SIZED:
            return self.number(self.SIZED[head])
        if head in self.LENGTHS:
            form, kind = self.LENGTHS[head]
            return self.sized(kind, self.number(form), depth)
        raise Failure(1003, "a message has a value of another kind")

    def sized(self, kind, count, depth):
        try:
            if kind in ("bytes", "text"):
                return self.take(count) if kind == "bytes" else self.take(count).decode()
        except UnicodeDecodeError:
            raise Failure(1003, "a text of a message is not UTF-8") from None
        if depth >= DEPTH_MAX:
            raise Failure(1003, "a message is nested too deep")
        if kind == "array":
            return [self.value(depth + 1) for _ in range(count)]
        result = {}
        for _ in range(count):
            name = self.value(depth + 1)
            if not isinstance(name, str):
                raise Failure(1003, "a field of a message has no name")
            result[name] = self.value(depth + 1)
        return result

# Rows.
def pack_value(value):
    if value is None:
        return b"\x00"
    if isinstance(value, int):
        zigzag = (value << 1) ^ (value >> 63)
        data = zigzag.to_bytes((zigzag.bit_length() + 7) // 8, "little")
        return bytes([1 | len(data) << 3]) + data
    if isinstance(value, float):
        return b"\x02" + struct.pack("<d", value)
    kind, data = (3, value.encode()) if isinstance(value, str) else (4, bytes(value))
    if len(data) < 28:
        return bytes([kind | len(data) << 3]) + data
    n = next(n for n in range(4) if len(data) >> 8 * (1 << n) == 0)
    return bytes([kind | 28 + n << 3]) + len(data).to_bytes(1 << n, "little") + data

def unpack_value(data, at):
    """A value and where the next one begins."""
    def bytes_at(at, count):
        if count > len(data) - at:
            raise Failure(1003, "a row is cut")
        return data[at:at + count]
    tag = bytes_at(at, 1)[0]
    kind, n, at = tag & 7, tag >> 3, at + 1
    if kind in (0, 5) and n == 0:
        return (None, ABSENT)[kind // 5], at
    if kind == 1 and n <= 8:
        zigzag = int.from_bytes(bytes_at(at, n), "little")
        return (zigzag >> 1) ^ -(zigzag & 1), at + n
    if kind == 2 and n == 0:
        return struct.unpack("<d", bytes_at(at, 8))[0], at + 8
    if kind in (3, 4):
        if n >= 28:
            size = 1 << (n - 28)
            n, at = int.from_bytes(bytes_at(at, size), "little"), at + size
        return (bytes_at(at, n).decode() if kind == 3 else bytes_at(at, n)), at + n
    raise Failure(1003, f"a row has a value of unknown kind {tag}")

def unpack_rows(data, count, width):
    rows, at = [], 0
    for _ in range(count):
        rows.append([])
        for _ in range(width):
            value, at = unpack_value(data, at)
            rows[-1].append(value)
    if at != len(data):
        raise Failure(1003, "a frame has more than its rows")
    return rows

# Frames and messages.
def frame(name, fields, payload=None):
    payload = pack(fields) if payload is None else payload
    return struct.pack("<IB", len(payload), TYPES[name]) + payload

def decode(number, payload):
    """The name and the fields of a message; none for one that may be skipped."""
    if number >= 128:
        return None, {}
    if number not in NAMES or NAMES[number] == "packed_rows":
        raise Failure(1011 if number in NAMES else 1005, f"a message of type {number}")
    if number == TYPES["rows"]:
        if len(payload) < 7:
            raise Failure(1003, "a frame of rows is too short")
        table, operation, count = struct.unpack("<HBI", payload[:7])
        if operation not in range(INSERT, KEY_CHANGE + 1):
            raise Failure(1003, f"unknown operation {operation}")
        return "rows", {"table": table, "operation": operation, "count": count, "rows": payload[7:]}
    fields = Unpacker(payload).value()
    if not isinstance(fields, dict):
        raise Failure(1003, "a message is no map")
    return NAMES[number], fields

class Connection:
    def __init__(self, url):
        if not url.startswith("tcp://"):
            raise Failure(1008, f"{url} is not supported")
        host, _, port = url[6:].rstrip("/").rpartition(":")
        self.socket = socket.create_connection((host.strip("[]"), int(port)), timeout=60)
        self.send, self.reader = self.socket.sendall, self.socket.makefile("rb")
        self.send(b"SYNCLINE")

    def read(self, count):
        data = self.reader.read(count)
        if len(data) < count:
            raise Failure(1006, "the connection ended")
        return data

    def receive(self, *expected):
        while True:
            size, number = struct.unpack("<IB", self.read(5))
            if size > FRAME_MAX:
                raise Failure(1004, f"a frame of {size} bytes")
            name, fields = decode(number, self.read(size))
            if name == "failed":
                raise Failure(fields["code"], fields["message"], fields)
            if name in expected:
                return name, fields
            if name is not None:
                raise Failure(1005, f"{name} where {expected} was expected")

# The remote.
def from_json(fields):
    return bytes.fromhex(fields["hex"]) if set(fields) == {"hex"} else fields

def quoted(name):
    return '"' + name.replace('"', '""') + '"'

class Remote:
    """An SQLite file. `pysync_state` has what is remembered, `pysync_N` the rows of table N."""
    def __init__(self, path, remote_id):
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("CREATE TABLE IF NOT EXISTS pysync_state (name TEXT PRIMARY KEY, value)")
        self.state = {name: json.loads(value, object_hook=from_json)
                      for name, value in self.db.execute("SELECT name, value FROM pysync_state")}
        if "remote_id" not in self.state:
            self.remember(remote_id=remote_id or secrets.token_hex(16), tables=[], progress=0, counter=0,
                          nonce_confirmed=0, attempt=0, file_secret=secrets.token_bytes(16))

    def remember(self, **facts):
        self.state.update(facts)
        for name, value in facts.items():
            text = json.dumps(value, default=lambda data: {"hex": data.hex()})
            self.db.execute("INSERT OR REPLACE INTO pysync_state VALUES (?, ?)", (name, text))

    def columns(self, table):
        return ", ".join(quoted(column) for column in table["columns"])

    def rows(self, name, table):
        found = self.db.execute(f"SELECT {self.columns(table)} FROM {quoted(name)}")
        key = lambda row: b"".join(pack_value(row[position]) for position in table["key"])
        return {key(row): list(row) for row in found}

    def changes(self):
        """Per table and operation what is different from what was synchronized last."""
        result = []
        for position, table in enumerate(self.state["tables"]):
            if table["direction"] == "download_only":
                continue
            now, before = self.rows(table["name"], table), self.rows(f"pysync_{position}", table)
            differs = lambda key: [*map(pack_value, now[key])] != [*map(pack_value, before[key])]
            result += [(position, INSERT, [now[key]]) for key in now if key not in before]
            result += [(position, UPDATE, [before[key], now[key]])
                       for key in now if key in before and differs(key)]
            result += [(position, DELETE, [before[key]]) for key in before if key not in now]
        return result

    def put(self, name, table, row):
        self.db.execute(f"INSERT OR REPLACE INTO {quoted(name)} ({self.columns(table)}) "
                        f"VALUES ({', '.join('?' * len(row))})", row)

    def remove(self, name, table, values):
        where = " AND ".join(f"{quoted(table['columns'][at])} IS ?" for at in table["key"])
        self.db.execute(f"DELETE FROM {quoted(name)} WHERE {where}", values)

    def settle(self, sent):
        """What was uploaded is what was synchronized last."""
        for position, operation, images in sent["rows"]:
            table, copy = self.state["tables"][position], f"pysync_{position}"
            self.remove(copy, table, [images[0][at] for at in table["key"]])
            if operation != DELETE:
                self.put(copy, table, images[-1])
        self.remember(progress=sent["progress"], sent=None)

    def change_schema(self, schema):
        """Tables that are the same are kept; all others are downloaded again."""
        self.db.execute("BEGIN IMMEDIATE")
        old = {table["fingerprint"]: (at, table) for at, table in enumerate(self.state["tables"])}
        new = {table["fingerprint"] for table in schema["tables"]}
        if any(self.state["tables"][at]["fingerprint"] not in new for at, _, _ in self.changes()):
            raise Failure(5000, "a table has changed at the center while changes of it wait here")
        for print_, (at, table) in old.items():
            self.db.execute(f"ALTER TABLE pysync_{at} RENAME TO pysync_old_{at}")
            if print_ not in new:
                for name in (quoted(table["name"]), f"pysync_old_{at}"):
                    self.db.execute(f"DROP TABLE {name}")
        for position, table in enumerate(schema["tables"]):
            kept = old.get(table["fingerprint"])
            if kept:
                self.db.execute(f"ALTER TABLE pysync_old_{kept[0]} RENAME TO pysync_{position}")
                table["watermark"] = kept[1]["watermark"]
                continue
            list(map(self.db.execute, table["create"]))
            keys = ", ".join(quoted(table["columns"][at]) for at in table["key"])
            # Without types, so that values stay what they are.
            self.db.execute(f"CREATE TABLE pysync_{position} ({self.columns(table)}, PRIMARY KEY ({keys}))")
            table["watermark"] = None
        self.remember(tables=schema["tables"], schema_fingerprint=schema["fingerprint"])
        self.db.execute("COMMIT")

    def apply(self, begin, frames, end):
        """The whole download in one transaction; it fails if rows were written in the meantime."""
        self.db.execute("BEGIN IMMEDIATE")
        if any(begin["tables"][at]["mode"] != "none" for at, _, _ in self.changes()):
            raise Failure(5000, "rows were changed in the meantime; synchronize again")
        tables = self.state["tables"]
        for position, table in enumerate(tables):
            if begin["tables"][position]["mode"] == "refresh":
                self.db.execute(f"DELETE FROM {quoted(table['name'])}")
                self.db.execute(f"DELETE FROM pysync_{position}")
        for rows in frames:
            table, position = tables[rows["table"]], rows["table"]
            keys = len(table["key"]) if rows["operation"] in (DELETE, KEY_CHANGE) else 0
            width = keys + (len(table["columns"]) if rows["operation"] != DELETE else 0)
            for row in unpack_rows(rows["rows"], rows["count"], width):
                for name in (table["name"], f"pysync_{position}"):
                    if keys:
                        self.remove(name, table, row[:keys])
                    if row[keys:]:
                        self.put(name, table, row[keys:])
        for table, mark in zip(tables, end["watermarks"]):
            table["watermark"] = mark if mark is not None else table["watermark"]
        self.remember(tables=tables, counter=end["counter"], nonce_attempt=None,
                      receipt=end.get("receipt") or self.state.get("receipt"),
                      nonce_confirmed=self.state["nonce_attempt"])
        self.db.execute("COMMIT")

# One synchronization.
def hello(remote, user, credential, version):
    state = remote.state
    nonce = state.get("nonce_attempt") or secrets.randbits(62) + 1
    remote.remember(nonce_attempt=nonce, attempt=state["attempt"] + 1)
    return {"protocol_version": version, "client": "client.py", "remote_id": state["remote_id"],
            "user": user, "credential": credential, "database_id": state.get("database_id"),
            "mode": "full", "progress": state["progress"],
            "outcome": "unknown" if state.get("sent") else "known", "counter": state["counter"],
            "nonce_confirmed": state["nonce_confirmed"], "nonce_attempt": nonce,
            "attempt": state["attempt"], "file_secret": state["file_secret"],
            "receipt": state.get("receipt"), "schema_fingerprint": state.get("schema_fingerprint"),
            "watermarks": [{name: table[name] for name in ("fingerprint", "watermark")}
                           for table in state["tables"]], "upload_follows": False}

def upload(connection, remote, kept):
    changes = [change for change in remote.changes() if change[0] not in kept]
    previous, sent = remote.state["progress"], {"progress": remote.state["progress"], "rows": []}
    if changes:
        sent = {"progress": previous + 1 + secrets.randbelow(1 << 30), "rows": changes}
        remote.remember(sent=sent)
    connection.send(frame("upload_begin", {"previous": previous, "progress": sent["progress"]}))
    for position, operation, images in sent["rows"]:
        row = b"".join(pack_value(value) for image in images for value in image)
        connection.send(frame("rows", None, struct.pack("<HBI", position, operation, 1) + row))
    connection.send(frame("upload_end", {"rows": len(sent["rows"])}))
    committed = connection.receive("upload_committed")[1]
    if sent["rows"]:
        remote.db.execute("BEGIN IMMEDIATE")
        remote.settle(sent)
        remote.db.execute("COMMIT")
    return {name: committed.get(name, 0) for name in ("inserts", "updates", "deletes", "conflicts")}

def attempt(url, remote, user, credential, version):
    connection = Connection(url)
    connection.send(frame("hello", hello(remote, user, credential, version)))
    _, welcome = connection.receive("welcome")
    remote.remember(database_id=welcome["database_id"], server_version=welcome["protocol_version"])
    sent, committed = remote.state.get("sent"), welcome.get("progress")
    if sent:
        remote.db.execute("BEGIN IMMEDIATE")
        if committed == sent["progress"]:
            remote.settle(sent)
        elif committed != remote.state["progress"]:
            raise Failure(2107, "the server has an upload of another file")
        remote.remember(sent=None)
        remote.db.execute("COMMIT")
    if welcome.get("schema_change_follows"):
        remote.change_schema(connection.receive("schema_change")[1]["schema"])
    uploaded = upload(connection, remote, welcome.get("kept_tables", []))
    begin, frames, rejects = connection.receive("download_begin")[1], [], []
    while True:
        name, fields = connection.receive("rows", "rejects", "download_end")
        if name == "download_end":
            break
        rejects += fields.get("rejects", [])
        if name == "rows":
            frames.append(fields)
    count = sum(rows["count"] for rows in frames)
    if fields["rows"] != count or len(fields["watermarks"]) != len(remote.state["tables"]):
        raise Failure(1003, f"{count} rows came, {fields['rows']} were sent")
    remote.apply(begin, frames, fields)
    return {"uploaded": uploaded, "downloaded": count, "rejects": len(rejects)}

def synchronize(url, remote, user, credential):
    version = min(VERSION, remote.state.get("server_version", VERSION))
    try:
        return attempt(url, remote, user, credential, version)
    except Failure as failure:
        newest = min(VERSION, failure.fields.get("max_version", 1))
        oldest = max(VERSION_MIN, failure.fields.get("min_version", 1))
        if failure.code != 1002 or newest == version or newest < oldest:
            raise
        return attempt(url, remote, user, credential, newest)

def main():
    parser = argparse.ArgumentParser()
    for argument in ("url", "file", "--user", "--password-file", "--remote-id"):
        parser.add_argument(argument)
    options = parser.parse_args()
    try:
        with open(options.password_file) as file:
            credential = {"password": file.readline().rstrip("\n")}
        remote = Remote(options.file, options.remote_id)
        print(json.dumps(synchronize(options.url, remote, options.user, credential)))
    except Failure as failure:
        sys.exit(str(failure))

if __name__ == "__main__":
    main()
