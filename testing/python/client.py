"""A client of Syncline, written from docs/internals/protocol.md with the standard library alone.

    client.py URL FILE --user NAME --password-file F [--remote-id ID] [--ca-file F]

It synchronizes an SQLite file over tcp, http or https, and prints one JSON object. It uploads what
differs from a copy of each table as it was synchronized last, so any program may write rows.
"""

import argparse, http.client, json, secrets, socket, sqlite3, ssl, struct, sys, urllib.parse

VERSION, DEPTH_MAX, FRAME_MAX = 2, 32, 64 << 20
NAMES = dict(enumerate("hello welcome schema_change upload_begin rows upload_end upload_committed "
                       "rejects download_begin download_end failed".split(), 1))
NAMES |= {15: "acknowledgement", 16: "packed_rows", 17: "verify", 18: "verified"}
TYPES = {name: number for number, name in NAMES.items()}
INSERT, UPDATE, DELETE, UPSERT, ABSENT = 1, 2, 3, 4, object()
HALF_DUPLEX, TYPE, REQUESTS_MAX = 256, "application/vnd.syncline", 5

class Failure(Exception):
    """What ends a synchronization, with the number of its error."""
    def __init__(self, code, message):
        super().__init__(f"E{code}: {message}")
        self.code = code

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
    values, at = [], 0
    for _ in range(count * width):
        value, at = unpack_value(data, at)
        values.append(value)
    if at != len(data):
        raise Failure(1003, "a frame has more than its rows")
    return [values[row * width:(row + 1) * width] for row in range(count)]

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
        if operation not in range(INSERT, UPSERT + 1):
            raise Failure(1003, f"unknown operation {operation}")
        return "rows", {"table": table, "operation": operation, "count": count, "rows": payload[7:]}
    fields = Unpacker(payload).value()
    if not isinstance(fields, dict):
        raise Failure(1003, "a message is no map")
    return NAMES[number], fields

class Connection:
    """What is sent waits for the next read: over HTTP all of it is one request."""
    def __init__(self, url, ca_file):
        parts, self.out = urllib.parse.urlsplit(url), b"SYNCLINE"
        self.half_duplex, self.path = parts.scheme != "tcp", parts.path.rstrip("/") + "/sync"
        if parts.scheme == "tcp":
            self.socket = socket.create_connection((parts.hostname, parts.port or 2439), timeout=60)
            self.reader = self.socket.makefile("rb")
            return
        secure = {"context": ssl.create_default_context(cafile=ca_file)} if parts.scheme == "https" else {}
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self.http = kind(parts.netloc, timeout=600, **secure)
    def read(self, count):
        data, self.out = self.out, b""
        if data and not self.half_duplex:
            self.socket.sendall(data)
        elif data:
            self.http.request("POST", self.path, data, {"Content-Type": TYPE})
            self.reader = self.http.getresponse()
            if self.reader.headers["Content-Type"] != TYPE:
                raise Failure(1025, f"no server of Syncline answers: status {self.reader.status}")
        data = self.reader.read(count) if count else b""
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
                raise Failure(fields["code"], fields["message"])
            if name in expected:
                return name, fields
            if name is not None:
                raise Failure(1005, f"{name} where {expected} was expected")

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
    def transaction(self):
        self.db.execute("BEGIN IMMEDIATE")
        return self.db
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
        for position, operation, images in sent["rows"]:
            table, copy = self.state["tables"][position], f"pysync_{position}"
            self.remove(copy, table, [images[0][at] for at in table["key"]])
            if operation != DELETE:
                self.put(copy, table, images[-1])
        self.remember(progress=sent["progress"], sent=None)
    def change_schema(self, schema):
        """Tables that are the same are kept; all others are downloaded again."""
        with self.transaction():
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
                columns = f"{self.columns(table)}, PRIMARY KEY ({keys})"
                self.db.execute(f"CREATE TABLE pysync_{position} ({columns})")
                table["watermark"] = None
            self.remember(tables=schema["tables"], schema_fingerprint=schema["fingerprint"])
    def apply(self, begin, frames, end):
        """The whole download in one transaction; it fails if rows were written in the meantime."""
        with self.transaction():
            if any(begin["tables"][at]["mode"] != "none" for at, _, _ in self.changes()):
                raise Failure(5000, "rows were changed in the meantime; synchronize again")
            tables = self.state["tables"]
            for position, table in enumerate(tables):
                if begin["tables"][position]["mode"] == "refresh":
                    self.db.execute(f"DELETE FROM {quoted(table['name'])}")
                    self.db.execute(f"DELETE FROM pysync_{position}")
            came = []
            for rows in frames:
                table, position = tables[rows["table"]], rows["table"]
                keys = len(table["key"]) if rows["operation"] == DELETE else 0
                width = keys or len(table["columns"])
                for row in unpack_rows(rows["rows"], rows["count"], width):
                    came += [(name, table, row[:keys], row[keys:])
                             for name in (table["name"], f"pysync_{position}")]
            # Values may have changed hands: all rows that go leave theirs before any row takes one.
            [self.remove(name, table, key) for name, table, key, _ in came if key]
            [self.put(name, table, row) for name, table, _, row in came if row]
            for table, mark in zip(tables, end["watermarks"]):
                table["watermark"] = mark if mark is not None else table["watermark"]
            self.remember(tables=tables, counter=end["counter"], nonce_attempt=None,
                          receipt=end.get("receipt") or self.state.get("receipt"),
                          nonce_confirmed=self.state["nonce_attempt"])

def hello(remote, user, credential, half_duplex, lesson):
    state = remote.state
    nonce = state.get("nonce_attempt") or secrets.randbits(62) + 1
    remote.remember(nonce_attempt=nonce, attempt=state["attempt"] + 1)
    known = ("remote_id progress counter nonce_confirmed attempt file_secret database_id receipt "
             "schema_fingerprint")
    return {"protocol_version": VERSION, "client": "client.py", "user": user, "mode": "full",
            "credential": credential, "nonce_attempt": nonce, "capabilities": HALF_DUPLEX * half_duplex,
            "outcome": "unknown" if state.get("sent") else "known",
            **{name: state.get(name) for name in known.split()},
            "watermarks": [{name: table[name] for name in ("fingerprint", "watermark")}
                           for table in state["tables"]], "upload_follows": lesson is not None,
            **{name: (lesson or {}).get(name, []) for name in ("kept_tables", "unknown_tables")}}

def upload(connection, remote, welcome):
    """Sends what has changed, but for the tables that Welcome wants to be left out."""
    left_out = welcome.get("kept_tables", []) + welcome.get("unknown_tables", [])
    changes = [it for it in remote.changes() if it[0] not in left_out]
    sent, previous = {"progress": remote.state["progress"], "rows": changes}, remote.state["progress"]
    if changes:
        sent["progress"] += 1 + secrets.randbelow(1 << 30)
        remote.remember(sent=sent)
    connection.out += frame("upload_begin", {"previous": previous, "progress": sent["progress"]})
    for position, operation, images in sent["rows"]:
        row = b"".join(pack_value(value) for image in images for value in image)
        connection.out += frame("rows", None, struct.pack("<HBI", position, operation, 1) + row)
    connection.out += frame("upload_end", {"rows": len(sent["rows"])})
    return sent

def learn(remote, committed, lesson):
    if sent := remote.state.get("sent"):
        if committed not in (sent["progress"], remote.state["progress"]) and not lesson:
            raise Failure(2107, "the server has an upload of another file")
        with remote.transaction():
            if committed == sent["progress"]:
                remote.settle(sent)
            remote.remember(sent=None)

def attempt(options, remote, credential, lesson=None):
    """A connection. It yields a report, or the Welcome that asks for an upload over another one."""
    connection = Connection(options.url, options.ca_file)
    greeting = hello(remote, options.user, credential, connection.half_duplex, lesson)
    connection.out += frame("hello", greeting)
    sent = upload(connection, remote, lesson) if lesson else None
    _, welcome = connection.receive("welcome")
    remote.remember(database_id=welcome["database_id"])
    if welcome["upload"] == "send":
        learn(remote, welcome.get("progress"), lesson)
        if welcome.get("schema_change_follows"):
            remote.change_schema(connection.receive("schema_change")[1]["schema"])
        if connection.half_duplex:
            return None, welcome
        sent = upload(connection, remote, welcome)
    committed = connection.receive("upload_committed")[1]
    if sent["rows"]:
        with remote.transaction():
            remote.settle(sent)
    if welcome.get("schema_change_after_upload"):
        remote.change_schema(connection.receive("schema_change")[1]["schema"])
    begin, frames, rejects, name = connection.receive("download_begin")[1], [], [], None
    while name != "download_end":
        name, fields = connection.receive("rows", "rejects", "download_end")
        rejects += fields.get("rejects", [])
        frames += [fields] if name == "rows" else []
    count = sum(rows["count"] for rows in frames)
    if fields["rows"] != count or len(fields["watermarks"]) != len(remote.state["tables"]):
        raise Failure(1003, f"{count} rows came, {fields['rows']} were sent")
    remote.apply(begin, frames, fields)
    if fields.get("acknowledge"):
        connection.socket.sendall(frame("acknowledgement", {"counter": fields["counter"]}))
    uploaded = {name: committed.get(name, 0) for name in ("inserts", "updates", "deletes", "conflicts")}
    return {"uploaded": uploaded, "downloaded": count, "rejects": len(rejects)}, None

def synchronize(options, remote, credential):
    lesson = None
    for _ in range(REQUESTS_MAX):
        report, lesson = attempt(options, remote, credential, lesson)
        if report:
            return report
    raise Failure(5030, "the server asks for the upload again and again")

def main():
    parser = argparse.ArgumentParser()
    for argument in ("url", "file", "--user", "--password-file", "--remote-id", "--ca-file"):
        parser.add_argument(argument)
    options = parser.parse_args()
    try:
        credential = {"password": open(options.password_file).readline().rstrip("\n")}
        remote = Remote(options.file, options.remote_id)
        print(json.dumps(synchronize(options, remote, credential)))
    except Failure as failure:
        sys.exit(str(failure))

if __name__ == "__main__":
    main()
